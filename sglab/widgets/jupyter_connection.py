"""A connection between a notebook's page and its kernel that sends small messages immediately.

Jupyter Server leaves Nagle's algorithm on: a kernel's answer waits until the browser has acknowledged the message
before it ("busy"), and a browser puts that off by 40 ms. A step of a widget takes less than that.

`sglab lab` and `start.py lab` start JupyterLab with it as `ServerApp.kernel_websocket_connection_class`.
"""

from __future__ import annotations

import asyncio

from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection


class PromptConnection(ZMQChannelsWebsocketConnection):
    """Jupyter Server's own connection, with TCP_NODELAY."""

    def connect(self) -> asyncio.Future[None] | None:  # type: ignore[override]  # as the class above has it
        self.websocket_handler.set_nodelay(True)
        return super().connect()
