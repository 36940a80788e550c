"""Media types by file name. Unlike the system's table, this table is the same on every machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

UNKNOWN_TYPE: Final = "application/octet-stream"
_TEXT_TYPES: Final[Mapping[str, str]] = {
    "html": "text/html",
    "htm": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "mjs": "text/javascript",
    "cjs": "text/javascript",
    "txt": "text/plain",
    "log": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "ics": "text/calendar",
    "vtt": "text/vtt",
    "vcf": "text/vcard",
    "xml": "application/xml",
    "xsl": "application/xslt+xml",
    "rss": "application/rss+xml",
    "atom": "application/atom+xml",
    "xhtml": "application/xhtml+xml",
    "svg": "image/svg+xml",
}
"""Text types that are sent with `charset=utf-8`."""
_COMPRESSED_TYPES: Final[Mapping[str, str]] = {
    "avif": "image/avif",
    "gif": "image/gif",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "png": "image/png",
    "webp": "image/webp",
    "jxl": "image/jxl",
    "woff": "font/woff",
    "woff2": "font/woff2",
    "mp3": "audio/mpeg",
    "m4a": "audio/mp4",
    "ogg": "audio/ogg",
    "oga": "audio/ogg",
    "opus": "audio/ogg",
    "flac": "audio/flac",
    "aac": "audio/aac",
    "mp4": "video/mp4",
    "m4v": "video/mp4",
    "webm": "video/webm",
    "ogv": "video/ogg",
    "mov": "video/quicktime",
    "mpd": "application/dash+xml",
    "ts": "video/mp2t",
    "pdf": "application/pdf",
    "zip": "application/zip",
    "gz": "application/gzip",
    "br": "application/octet-stream",
    "bz2": "application/x-bzip2",
    "xz": "application/x-xz",
    "zst": "application/zstd",
    "7z": "application/x-7z-compressed",
    "epub": "application/epub+zip",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "apk": "application/vnd.android.package-archive",
    "jar": "application/java-archive",
}
"""Types whose content is already compressed."""
_OTHER_TYPES: Final[Mapping[str, str]] = {
    "json": "application/json",
    "map": "application/json",
    "jsonld": "application/ld+json",
    "geojson": "application/geo+json",
    "webmanifest": "application/manifest+json",
    "topojson": "application/json",
    "wasm": "application/wasm",
    "ico": "image/vnd.microsoft.icon",
    "bmp": "image/bmp",
    "tif": "image/tiff",
    "tiff": "image/tiff",
    "ttf": "font/ttf",
    "otf": "font/otf",
    "eot": "application/vnd.ms-fontobject",
    "wav": "audio/wav",
    "mid": "audio/midi",
    "m3u8": "application/vnd.apple.mpegurl",
    "tar": "application/x-tar",
    "rtf": "application/rtf",
    "doc": "application/msword",
    "xls": "application/vnd.ms-excel",
    "ppt": "application/vnd.ms-powerpoint",
    "gltf": "model/gltf+json",
    "glb": "model/gltf-binary",
}


def suffix_of(path: str) -> str:
    """Returns the file name extension in lower case; empty if there is none."""
    _, dot, suffix = path.rpartition("/")[2].rpartition(".")
    return suffix.lower() if dot else ""


def media_type(path: str) -> str:
    suffix = suffix_of(path)
    if text := _TEXT_TYPES.get(suffix):
        return f"{text}; charset=utf-8"
    return _COMPRESSED_TYPES.get(suffix) or _OTHER_TYPES.get(suffix) or UNKNOWN_TYPE


def is_compressible(path: str) -> bool:
    suffix = suffix_of(path)
    return suffix in _TEXT_TYPES or suffix in _OTHER_TYPES


def is_asset(path: str) -> bool:
    """Returns whether a path looks like an asset (script, image and so on) rather than a page."""
    suffix = suffix_of(path)
    return suffix not in {"html", "htm", "xhtml"} and (
        suffix in _TEXT_TYPES or suffix in _COMPRESSED_TYPES or suffix in _OTHER_TYPES
    )
