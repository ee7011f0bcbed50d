"""What nodes publish of themselves, and whether their policy would admit a pod: asked before anything is bound."""
