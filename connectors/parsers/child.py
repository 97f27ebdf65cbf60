"""Confined child process: reads one file per request on stdin, until stdin closes. Started by
`connectors.parsers.pool` as `python -m connectors.parsers.child MEMORY_BYTES FILE_BYTES INPUT OUTPUT [PROGRAM]`;
reads below INPUT, writes below OUTPUT, may start PROGRAM.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import msgspec

from connectors.parsers import confinement, messages, verdicts, xml
from connectors.parsers.messages import Reply, Task
from retrieval.errors import Retryable, Skippable

# Messages of a library in a state that fails all further files.
_POISONED_MESSAGES = ("panicked", "poisoned")


def main() -> None:
    memory_bytes, file_bytes = int(sys.argv[1]), int(sys.argv[2])
    input_folder, output_folder, program = Path(sys.argv[3]), Path(sys.argv[4]), "".join(sys.argv[5:])
    confinement.confine_process(memory_bytes, file_bytes, programs=bool(program))
    from connectors.parsers.formats import reading

    confined = confinement.restrict_files(input_folder, output_folder, program)
    confinement.cap_address_space(memory_bytes)
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the replies
    threading.Thread(target=_leave_with_parent, args=(requests.fileno(),), daemon=True).start()
    _write_reply(replies, Reply(landlock=confined))  # ready
    grown = confinement.data_bytes() + memory_bytes // 4
    while task := _read_task(requests):
        confinement.allow_cpu(task.cpu_seconds)
        reply = verdicts.judge_reply(_answer_task(reading.read_document, task))
        if confinement.data_bytes() > grown:
            reply = msgspec.structs.replace(reply, spent=True)
        _write_reply(replies, reply)


def _write_reply(replies: BinaryIO, reply: Reply) -> None:
    replies.write(messages.frame_message(reply))
    replies.flush()


def _read_task(requests: BinaryIO) -> Task | None:
    header = requests.read(messages.LENGTH.size)
    if len(header) < messages.LENGTH.size:
        return None
    return msgspec.msgpack.decode(requests.read(messages.LENGTH.unpack(header)[0]), type=Task)


def _answer_task(read: Callable[[Task], Reply], task: Task) -> Reply:
    try:
        return read(task)
    except Skippable as error:
        cause = error.__cause__
        if xml.is_out_of_memory(cause):
            os._exit(messages.OUT_OF_MEMORY)
        description = f"{type(cause).__name__}: {cause}" if cause else ""
        refusal = messages.TOO_DEEP if xml.is_too_deep(cause) else str(error)
        refusal = messages.DECLARES_ENTITIES if isinstance(cause, xml.EntitiesRefused) else refusal
        return Reply(
            refusal=refusal, detail=description[:500], spent=any(sign in description for sign in _POISONED_MESSAGES)
        )
    except Retryable as error:
        return Reply(again=str(error))
    except MemoryError:
        os._exit(messages.OUT_OF_MEMORY)
    except BaseException as error:  # noqa: BLE001 - a panic of the library is no Exception; this is the outermost handler
        refusal = messages.TOO_DEEP if xml.is_too_deep(error) else messages.CRASHED
        return Reply(refusal=refusal, detail=f"{type(error).__name__}: {error}"[:500], spent=True)


def _leave_with_parent(requests: int) -> None:
    """End this process at the end of stdin, even during a file."""
    poll = select.poll()
    poll.register(requests, 0)
    poll.poll()
    os._exit(0)


if __name__ == "__main__":
    main()
