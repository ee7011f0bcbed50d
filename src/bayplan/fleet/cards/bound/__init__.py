"""What no policy can do better, whatever it knows of the future: bounds by linear programming.

`most` bounds how much of the cards can be given out, `fewest` how few nodes serve a workload. Both hold for any
placement of whole pods, with the right to refuse pods and to move them, because they are worked out for a fleet that
has it easier: pods may be cut in parts, and the nodes of one model and shape share their CPUs and memory.
"""
