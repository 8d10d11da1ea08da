"""Values of DCBX. The layouts of its TLVs are with its features (`testbed.dcbx.features`)."""

from typing import TYPE_CHECKING

from testbed.moved import attributes

if not TYPE_CHECKING:
    __getattr__ = attributes(__name__, "testbed.dcbx.tlvs")
