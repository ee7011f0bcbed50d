"""The card policies of the literature, exactly: what Bayplan's own is measured against.

One file each. Facts: the FGD paper (USENIX ATC'23) and its simulator for all but the two that look at power, which are
those of Lettich et al. (CCGrid 2025).
"""
