"""What happened, down to the token: turns, trajectories, training samples, and their stored form."""
