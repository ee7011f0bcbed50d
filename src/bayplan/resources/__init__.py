"""The kinds of things that are handed out, and the words for having got them."""
