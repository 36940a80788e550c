"""Debian packages of programs and shared libraries that applications use without naming them. Pure."""

from __future__ import annotations

from typing import Final

_PACKAGES_BY_PROGRAM: Final = {
    "chromedriver": "chromium-driver",
    "convert": "imagemagick",
    "dot": "graphviz",
    "ffprobe": "ffmpeg",
    "gm": "graphicsmagick",
    "google-chrome": "chromium",
    "java": "default-jre-headless",
    "gs": "ghostscript",
    "libreoffice": "libreoffice-writer",
    "magick": "imagemagick",
    "node": "nodejs",
    "pdfinfo": "poppler-utils",
    "pdftoppm": "poppler-utils",
    "pdftotext": "poppler-utils",
    "psql": "postgresql-client",
    "pg_dump": "postgresql-client",
    "soffice": "libreoffice-writer",
    "tesseract": "tesseract-ocr",
    "xvfb-run": "xvfb",
    "Xvfb": "xvfb",
}
"""Programs whose package has another name."""
_SAME_NAME: Final = frozenset(
    ["chromium", "curl", "ffmpeg", "git", "jq", "pandoc", "rsync", "unzip", "wget", "wkhtmltopdf", "zip"]
)
_PACKAGES_BY_LIBRARY: Final = {
    "libGL": "libgl1",
    "libSM": "libsm6",
    "libXext": "libxext6",
    "libXrender": "libxrender1",
    "libasound": "libasound2",
    "libatk-1.0": "libatk1.0-0",
    "libcairo": "libcairo2",
    "libgobject-2.0": "libglib2.0-0",
    "libglib-2.0": "libglib2.0-0",
    "libgthread-2.0": "libglib2.0-0",
    "libgomp": "libgomp1",
    "libmagic": "libmagic1",
    "libmariadb": "libmariadb3",
    "libnss3": "libnss3",
    "libodbc": "unixodbc",
    "libpango-1.0": "libpango-1.0-0",
    "libpangoft2-1.0": "libpangoft2-1.0-0",
    "libpq": "libpq5",
    "libportaudio": "libportaudio2",
    "libsndfile": "libsndfile1",
    "libtesseract": "libtesseract5",
    "libvips": "libvips42",
    "libxmlsec1": "libxmlsec1",
    "libzbar": "libzbar0",
    "zbar": "libzbar0",
}


def tool_to_install(program: str) -> str:
    """Returns what to install for a program, with the command if its package is known."""
    return _to_install(program, program if program in _SAME_NAME else _PACKAGES_BY_PROGRAM.get(program, ""))


def library_to_install(name: str) -> str:
    """Returns what to install for a shared library such as `libGL.so.1` or `libpango-1.0-0`."""
    stem = name.partition(".so")[0]
    return _to_install(
        name, _PACKAGES_BY_LIBRARY.get(stem) or _PACKAGES_BY_LIBRARY.get(stem.rpartition("-")[0], "")
    )


def _to_install(name: str, package: str) -> str:
    if not package:
        return f"the Debian package of {name} on this machine"
    return f"{package} on this machine (`apt-get install {package}`)"
