"""Video of high dynamic range (PQ or HLG) on an ordinary screen.

Light levels come from the transfer functions of SMPTE ST 2084 and ITU-R BT.2100, brightness is
compressed as in ITU-R BT.2390, section 5.4.1, and colours outside BT.709 (ITU-R BT.2087) are
clipped. Mastering levels are not read: peaks count as 1,000 cd/m2, the usual level.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

Light = npt.NDArray[np.float32]

#: FFmpeg's numbers of the transfer functions whose light levels do not fit an ordinary screen.
HDR_TRANSFERS = {16: "PQ", 18: "HLG"}

#: cd/m2 of the brightest light in the video, and of diffuse white (ITU-R BT.2408), shown as white.
_PEAK = 1000.0
_WHITE = 203.0

#: FFmpeg's numbers for BT.2020 primaries, and for those that are not declared.
_WIDE_PRIMARIES = frozenset({2, 9})

_BT2020_TO_BT709 = np.array(
    [[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]], np.float32
)
_BT2020_LUMA = np.array([0.2627, 0.6780, 0.0593], np.float32)

#: Of an ordinary screen (ITU-R BT.1886).
_SCREEN_GAMMA = 2.4


def tone_map(rgb: npt.NDArray[np.uint16], transfer: int, primaries: int) -> npt.NDArray[np.uint8]:
    """A picture of high dynamic range as one for an ordinary screen.

    Args:
        rgb: coded values in full range, uint16 [height, width, 3].
        transfer: 16 for PQ, 18 for HLG.
        primaries: FFmpeg's number.

    Returns:
        uint8 [height, width, 3].
    """
    light = _hlg_light(rgb) if HDR_TRANSFERS[transfer] == "HLG" else _pq_table()[rgb]
    light = light * _dimming(light.max(axis=-1))[..., None]
    if primaries in _WIDE_PRIMARIES:
        light = light @ _BT2020_TO_BT709.T
    coded = np.clip(light, 0, 1) ** np.float32(1 / _SCREEN_GAMMA)
    return (coded * 255 + 0.5).astype(np.uint8)


def pq_light(code: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """cd/m2 of PQ values from 0 to 1."""
    root = np.asarray(code, np.float64) ** (32 / 2523)
    ratio = np.maximum(root - 107 / 128, 0) / (2413 / 128 - 2392 / 128 * root)
    return 10000 * ratio ** (8192 / 1305)


def pq_code(light: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """PQ values from 0 to 1 of cd/m2; the inverse of :func:`pq_light`."""
    root = (np.asarray(light, np.float64) / 10000) ** (1305 / 8192)
    return ((107 / 128 + 2413 / 128 * root) / (1 + 2392 / 128 * root)) ** (2523 / 32)


def compressed(light: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """cd/m2 after the compression of brightness: up to a knee as it was, white at the peak."""
    top = pq_code(_PEAK)
    white = pq_code(_WHITE) / top
    knee = 1.5 * white - 0.5
    code = np.minimum(pq_code(light) / top, 1)
    t = np.maximum(code - knee, 0) / (1 - knee)
    # A cubic Hermite curve from the knee, with slope 1, to white, with slope 0.
    curve = (2 * t**3 - 3 * t**2 + 1) * knee
    curve += (t**3 - 2 * t**2 + t) * (1 - knee) + (3 * t**2 - 2 * t**3) * white
    return pq_light(np.where(code < knee, code, curve) * top)


@lru_cache(maxsize=1)
def _pq_table() -> Light:
    return pq_light(np.arange(65536) / 65535).astype(np.float32)


@lru_cache(maxsize=1)
def _hlg_table() -> Light:
    """Light of the scene, 0 to 1, of HLG values."""
    code = np.arange(65536) / 65535
    a, b, c = 0.17883277, 0.28466892, 0.55991073
    return np.where(code <= 0.5, code**2 / 3, (np.exp((code - c) / a) + b) / 12).astype(np.float32)


def _hlg_light(rgb: npt.NDArray[np.uint16]) -> Light:
    """cd/m2 on a screen of 1,000 cd/m2, whose gamma is 1.2."""
    scene = _hlg_table()[rgb]
    brightness = np.maximum(scene @ _BT2020_LUMA, 1e-6) ** np.float32(0.2)
    return scene * (np.float32(_PEAK) * brightness)[..., None]


@lru_cache(maxsize=1)
def _dimming_table() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    light = pq_light(np.linspace(0.01, 1, 2048))
    return light, compressed(light) / light / _WHITE


def _dimming(light: Light) -> Light:
    """What to multiply a pixel by whose brightest channel has so many cd/m2; white becomes 1."""
    return np.interp(light, *_dimming_table()).astype(np.float32)
