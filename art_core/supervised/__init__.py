"""Supervised fine-tuning: from conversations and stored rollouts to a LoRA."""
