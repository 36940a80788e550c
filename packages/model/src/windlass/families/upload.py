"""An upload: a folder that is sent to the server in parts, as an archive, and deployed."""

from typing import Annotated, Final, Literal

from msgspec import Meta

from windlass.core.access import Scope
from windlass.core.declare.actions import Itself, post, put
from windlass.core.declare.fields import Maybe, absent, example, shaped
from windlass.core.declare.resource import Family, Owner, Shown, Spec, Verb
from windlass.families.application import application

OPEN, READY = "OPEN", "READY"
MAX_UPLOAD_BYTES: Final = 2**40
"""An upper limit in bytes, larger than any allowed value of the setting upload_bytes."""


class Upload(Spec):
    size: Annotated[
        int,
        Meta(
            ge=1,
            le=MAX_UPLOAD_BYTES,
            description="Bytes of the archive: a tar, which gzip may have compressed",
        ),
    ]
    sha256: Annotated[
        str,
        Meta(
            pattern=shaped(r"^[0-9a-f]{64}\Z", "must be a SHA-256: 64 hexadecimal digits in lower case"),
            description="SHA-256 of the archive",
            examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"],
        ),
    ]


class UploadShown(Shown):
    application: Owner
    state: Annotated[
        Literal["OPEN", "READY"], Meta(description="OPEN: parts are missing, or it was not completed")
    ] = "OPEN"
    offset: Annotated[int, Meta(description="Bytes that have arrived")] = 0
    git_commit_id: Annotated[
        Maybe[str],
        Meta(
            description="Digest of its content, once it is READY: the version that a deployment of it shows"
        ),
        example("9f2c4e1b7a60d3588ec1f0a94b7d62e35c81fa07"),
    ] = absent
    files: Annotated[int, Meta(description="Number of files, once it is READY")] = 0


class ContentPart(Spec):
    """The query of a request that uploads a part."""

    offset: Annotated[
        int, Meta(ge=0, le=MAX_UPLOAD_BYTES, description="Position of its first byte in the archive")
    ] = 0


_COMPLETE_DESCRIPTION: Final = (
    "Checks the archive: 400 with the reason if it cannot be unpacked, or has another digest; 409 if bytes "
    "are missing. May be repeated."
)
_UPLOAD_DESCRIPTION: Final = (
    "An archive of a folder, sent in parts with PUT …/content?offset=N and then completed. 413 if it is "
    "larger than the setting upload_bytes."
)

upload = Family(
    "upload",
    Upload,
    parent=application,
    nested=True,
    shown=UploadShown,
    verbs=frozenset({Verb.CREATE, Verb.LIST, Verb.READ, Verb.DELETE}),
    names=None,
    write_need=Scope.DEPLOY,
    actions=(
        put("content", Itself, "Send a part", need=Scope.DEPLOY, query=ContentPart, is_raw=True),
        post(
            "complete",
            Itself,
            "Complete an upload",
            _COMPLETE_DESCRIPTION,
            need=Scope.DEPLOY,
            status=200,
            also=(409,),
        ),
    ),
    about=_UPLOAD_DESCRIPTION,
)
