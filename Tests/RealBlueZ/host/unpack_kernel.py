"""Takes the ELF kernel out of a bzImage: unpack_kernel.py BZIMAGE VMLINUX

Its place is in the setup header (Documentation/arch/x86/boot.rst). Debian packs 6.1 with xz and
6.12 with zstd.
"""
import lzma
import struct
import subprocess
import sys

ZSTD = bytes.fromhex("28b52ffd")

image = open(sys.argv[1], "rb").read()
assert image[0x202:0x206] == b"HdrS", "no bzImage"
setup_sectors = image[0x1F1] or 4
offset, length = struct.unpack_from("<II", image, 0x248)
start = (setup_sectors + 1) * 512 + offset
payload = image[start : start + length]
if payload.startswith(ZSTD):
    # The last four bytes are the kernel's own: the unpacked size.
    kernel = subprocess.run(
        ["zstd", "-dcq"], input=payload[:-4], stdout=subprocess.PIPE, check=True
    ).stdout
else:
    kernel = lzma.LZMADecompressor().decompress(payload)
with open(sys.argv[2], "wb") as file:
    file.write(kernel)
