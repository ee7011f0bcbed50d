"""Advice for live clusters: which few pods to move so that more of the cards can be used. Never acts."""
