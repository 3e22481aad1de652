"""Driver, clock and power of a GPU through NVML, which comes with the driver, if any."""

import ctypes

SM_CLOCK = 1


class Gpu:
    """The GPU with this UUID ("GPU-..."), or the first GPU."""

    def __init__(self, uuid=None):
        self.handle = ctypes.c_void_p()
        try:
            self.library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            self.library = None
            return
        found = self.library.nvmlInit_v2() == 0 and (
            uuid and self._ask("nvmlDeviceGetHandleByUUID", uuid.encode()) or
            self._ask("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(0)))
        if not found:
            self.library = None

    def _ask(self, function, key):
        return getattr(self.library, function)(key, ctypes.byref(self.handle)) == 0

    def _number(self, function, *arguments):
        value = ctypes.c_uint()
        if not self.library:
            return None
        status = getattr(self.library, function)(self.handle, *arguments, ctypes.byref(value))
        return value.value if status == 0 else None

    def driver(self):
        text = ctypes.create_string_buffer(96)
        if self.library:
            self.library.nvmlSystemGetDriverVersion(text, ctypes.c_uint(96))
        return text.value.decode()

    def clock_mhz(self):
        return self._number("nvmlDeviceGetClockInfo", ctypes.c_int(SM_CLOCK))

    def power_w(self):
        milliwatts = self._number("nvmlDeviceGetPowerUsage")
        return None if milliwatts is None else milliwatts / 1e3
