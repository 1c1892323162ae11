"""What the JupyterLab extension asks a notebook's kernel: what there is to look at, and widgets on it.

The extension itself is TypeScript, `widgets/packages/jupyterlab`; its questions are evaluated in the kernel like a cell
that leaves no trace.
"""

from sglab.jupyterlab.answers import Answer, answer

__all__ = ["Answer", "answer"]
