"""What runs inside a submission's process, before and around its code: plain Python, nothing of ours.

Started with this folder's parent on the path and not as a part of sglab, which such a process may not even see.
"""
