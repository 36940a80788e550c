"""Uploaded folders, the other source of code beside git."""

from windlass.sources.upload.archive import ID, FolderContent, examine, unpack
from windlass.sources.upload.tar import UploadError

__all__ = ["ID", "FolderContent", "UploadError", "examine", "unpack"]
