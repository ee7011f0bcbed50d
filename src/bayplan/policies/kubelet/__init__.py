"""The kubelet policy: answers as a kubelet would."""
