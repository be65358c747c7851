"""The device's times on the host's clock, from inequalities alone: nothing waits for anything.

An event cannot have happened before the host enqueued it, nor after the host saw it done. Each
bounds the offset between the two clocks, host minus device. The clocks drift against each other,
so a bound weakens with the distance from where it was seen, by the greatest drift there can be;
what is old gives way to what is new, and the window slides by itself. Half of what is left
between the bounds is the error.
"""

from __future__ import annotations

# Quartz stays within 100 ppm, and Linux slews CLOCK_MONOTONIC by at most 500 (adjtimex(2)).
MAX_DRIFT_PPM = 600
# Event times have a resolution of 0.5 us (CUDA runtime, cudaEventElapsedTime), one at each end,
# and a float32 of milliseconds one of 0.5 us between 4 and 8 s.
RESOLUTION_NS = 1500
_PPM = 1_000_000


class DeviceClock:
    """Where the device's clock stands against the host's CLOCK_MONOTONIC.

    Device times are ns from any zero; they must be of one axis until `restart`. Rates may
    differ by up to `MAX_DRIFT_PPM`, and change. Bounds that contradict each other (the device
    was reset, the machine slept) start it anew.
    """

    __slots__ = ("_lower", "_lower_at", "_upper", "_upper_at", "restarts")

    def __init__(self) -> None:
        self.restarts = 0
        self.restart()

    def restart(self) -> None:
        """Forgets everything: device times are of another axis from here on."""
        self._lower: int | None = None
        self._lower_at = 0
        self._upper: int | None = None
        self._upper_at = 0

    def not_before(self, device_ns: int, host_ns: int) -> None:
        """What the device did at `device_ns` was not enqueued before `host_ns` on the host."""
        offset = host_ns - device_ns
        known = self._lower
        if known is not None and offset < known - _drift(device_ns - self._lower_at):
            return
        self._lower, self._lower_at = offset, device_ns
        if self._contradicts():
            self._upper = None

    def not_after(self, device_ns: int, host_ns: int) -> None:
        """What the device did at `device_ns` was seen done on the host at `host_ns`."""
        offset = host_ns - device_ns
        known = self._upper
        if known is not None and offset > known + _drift(device_ns - self._upper_at):
            return
        self._upper, self._upper_at = offset, device_ns
        if self._contradicts():
            self._lower = None

    def _contradicts(self) -> bool:
        if self._lower is None or self._upper is None:
            return False
        slack = _drift(self._upper_at - self._lower_at) + 2 * RESOLUTION_NS
        if self._lower <= self._upper + slack:
            return False
        self.restarts += 1
        return True

    def host_ns(self, device_ns: int) -> tuple[int, int] | None:
        """When on the host's clock it was `device_ns` on the device's.

        Returns:
            CLOCK_MONOTONIC in ns and how far it may be off, in ns to both sides; None while
            one of the bounds is missing.
        """
        if self._lower is None or self._upper is None:
            return None
        lower = self._lower - _drift(device_ns - self._lower_at)
        upper = self._upper + _drift(device_ns - self._upper_at)
        return device_ns + (lower + upper) // 2, max(0, upper - lower) // 2 + RESOLUTION_NS


def _drift(distance_ns: int) -> int:
    """By how many ns the clocks may have moved apart over `distance_ns`."""
    return abs(distance_ns) * MAX_DRIFT_PPM // _PPM + 1
