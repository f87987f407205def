"""Training data that nobody has to write: scenarios and system texts by a language model, tried out before they are used."""
