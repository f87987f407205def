"""Messages to token ids and back, through the model's own chat template."""
