"""From one finding of a session's sanitizers to the next."""

from __future__ import annotations

from sglab.compilers.source import short_name
from sglab.emulator.moves import Mover
from sglab.emulator.session import Session
from sglab.gpu import KernelError
from sglab.gpu.findings import Finding

AHEAD_S = 5.0
"""How long a launch is run ahead to learn what is found in it."""


def next_finding(session: Session) -> str:
    """Moves the session to before the instruction of the next finding, and says which it is; from the last on to the
    first. Where a launch fails, the failure is the last of them.

    Returns:
        what was found, or why there is nothing to go to; then the session stays where it is.
    """
    code = session.code
    reach = Mover(session, lambda pc: code[pc].source).measure(AHEAD_S)
    found = [(_place(each), _words(each)) for each in reach.findings if each.detector != "launch"]
    if reach.failure is not None:
        found.append((reach.position, f"the kernel fails: {str(reach.failure).splitlines()[0]}"))
    if not found:
        if not getattr(session.device, "sanitize", ()):
            return "No sanitizer looks at this launch. Make its device with gpu.EmulatedDevice(sanitize=True)."
        far = "" if reach.complete else f" in its first {reach.position:,} warp-instructions"
        return f"The sanitizers found nothing in this launch{far}."
    found.sort(key=lambda each: each[0])
    number, (place, words) = next((one for one in enumerate(found, 1) if one[1][0] > session.now), (1, found[0]))
    try:
        session.seek(place)
    except KernelError as error:  # the moment is the failure itself
        words = f"the kernel fails: {str(error).splitlines()[0]}"
    return f"{number} of {len(found)}: {words}"


def _place(finding: Finding) -> int:
    return finding.position if finding.at is None else finding.at.position


def _words(finding: Finding) -> str:
    """Where first: a notification shows the beginning."""
    kind = finding.kind.replace("_", " ")
    if (at := finding.at) is None:
        return f"{kind}: {finding.message}"
    own = at.instruction.own_source if at.instruction else None
    where = f"{short_name(own[0])}:{own[1]}" if own else f"PTX line {at.ptx_line}"
    role = f" ({at.role})" if at.role else ""
    return f"{kind}, CTA {at.cta} warp {at.warp}{role}, {where}: {finding.message}"
