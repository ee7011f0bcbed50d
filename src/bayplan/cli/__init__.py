"""The words a person types."""
