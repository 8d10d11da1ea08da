"""The LLDP TLVs by which the ends of a link tell each other what they have of Ultra Ethernet's link layer.

    subtype 1, length 6    LLR 1 bit, CBFC 1, reserved 6; version of UE 8
    subtype 2, length 13   virtual channels 8 bits, credits of the pool 16, lossless channels 32 (bit n: VC n),
                           reserved 16

Provisional: sections 5.3.2.1 and 5.3.2.2 of the specification are not public, and this is what a public description of
them has. It does not say under which identifier they are sent: here it is the consortium's, FA-7A-CB.
"""

from __future__ import annotations

from testbed.frames.dcbx.layouts import Field, Layout
from testbed.frames.link.credits import COMPANY

OUI = COMPANY
VERSION = 1
MOST_VCS, MOST_LOSSLESS = 32, 4
MOST_POOL = 0xFFFF
_LLR, _CBFC, _VERSION = Field("llr", 1), Field("cbfc", 1), Field("version", 8, usual=VERSION)
_VCS, _POOL, _LOSSLESS = Field("vcs", 8, usual=1), Field("pool", 16, usual=1), Field("lossless", 32)
LINK = Layout(1, "UE Link Negotiation", _LLR, _CBFC, Field("reserved", 6), _VERSION)
CHANNELS = Layout(2, "UE CBFC", _VCS, _POOL, _LOSSLESS, Field("reserved", 16))
