"""The tool's own key: it signs what the tool says to platforms, which read the public half from the service."""

from __future__ import annotations

import hashlib
import json
import os
import time
import uuid
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

ALGORITHM = "RS256"
"""The one that the Security Framework demands of everybody (section 5)."""


class ToolKey:
    """An RSA key in a file that only the hub's user can read; made where there is none."""

    def __init__(self, file: Path) -> None:
        if not file.exists():
            private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
            form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as out:
                out.write(private.private_bytes(*form))
        key = serialization.load_pem_private_key(file.read_bytes(), password=None)
        if not isinstance(key, rsa.RSAPrivateKey):
            raise ValueError(f"{file}: expected an RSA key; remove it and a new one is made")
        self._key = key

    def public_set(self) -> dict[str, Any]:
        """The public half as a JWKS."""
        public: dict[str, Any] = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key()))
        kid = hashlib.sha256(public["n"].encode()).hexdigest()[:16]
        return {"keys": [{**public, "kid": kid, "alg": ALGORITHM, "use": "sig"}]}

    def assertion(self, client_id: str, audience: str) -> str:
        """A signed statement of who the tool is, good for one minute, for a platform's token endpoint."""
        now = int(time.time())
        claims = {"iss": client_id, "sub": client_id, "aud": audience, "iat": now, "exp": now + 60}
        kid = self.public_set()["keys"][0]["kid"]
        return jwt.encode({**claims, "jti": uuid.uuid4().hex}, self._key, ALGORITHM, {"kid": kid})
