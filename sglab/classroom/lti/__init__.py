"""LTI 1.3: students come from the university's learning-management system, and their labs' points go back into its
grade book.

The hub runs it as a service (`sglab hub --lti FILE`). `platform` is the file, `launch` lets a student in (OpenID
Connect's third-party login), `links` keeps whose account is whose, `passback` posts scores (Assignment and Grade
Services 2.0). All but `platform` need the package PyJWT, which the extra `hub` brings.

Sources: LTI 1.3 Core, https://www.imsglobal.org/spec/lti/v1p3; Security Framework 1.0,
https://www.imsglobal.org/spec/security/v1p0; AGS 2.0, https://www.imsglobal.org/spec/lti-ags/v2p0.
"""

from .platform import LtiError, Platform, Tool, read_tool

__all__ = ["LtiError", "Platform", "Tool", "read_tool"]
