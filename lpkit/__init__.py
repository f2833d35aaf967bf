"""lpkit."""
