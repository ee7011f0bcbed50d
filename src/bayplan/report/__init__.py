"""Pictures of a machine and of a plan: text, SVG, HTML."""
