"""Uploaded folders, the other source of code beside git."""

from windlass.sources.upload.archive import ID_DIGITS, FolderContent, examine, unpack
from windlass.sources.upload.tar import UploadError

__all__ = ["ID_DIGITS", "FolderContent", "UploadError", "examine", "unpack"]
