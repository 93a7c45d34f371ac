"""Fine-tuning of language models: many adapters side by side through one frozen base."""
