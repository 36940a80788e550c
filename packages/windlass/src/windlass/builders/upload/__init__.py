"""Uploaded folders, a source of code beside git."""

from windlass.builders.upload.archive import ID, FolderContent, examine, unpack
from windlass.builders.upload.tar import UploadError

__all__ = ["ID", "FolderContent", "UploadError", "examine", "unpack"]
