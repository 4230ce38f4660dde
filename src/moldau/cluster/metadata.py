"""The broker's metadata: the current image, and the one way to change it.

Invariant: lives on the event loop. Commands are decided one after the other, each on an image that holds
all before it, and nothing is answered, applied or told before the store has it. While one append is under
way the next commands wait and then share an append: a hundred topics in a row cost a few fsyncs. Listeners
are called in the order of the log, with every change, ours and the others' alike.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from moldau.base.tasks import Background
from moldau.cluster.controller.commands import Decision
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage, difference
from moldau.cluster.records import MetadataError, Record
from moldau.cluster.store.contract import Changes, MetadataStore, StaleControllerEpoch, StaleVersion
from moldau.protocol.errors import ErrorCode, KafkaError

_logger = logging.getLogger(__name__)

Decide = Callable[[ClusterImage], Sequence[Record]]
#: (image before, image after, the records between them)
ImageListener = Callable[[ClusterImage, ClusterImage, Sequence[Record]], None]
_Outcome = TypeVar("_Outcome")

#: An append stops growing here; the commands that are left go into the next one.
_MAX_RECORDS_PER_APPEND = 10_000
#: So many times in a row another broker was faster: then the client may try again.
_MAX_ATTEMPTS = 50


@dataclass(slots=True, eq=False)
class _Submission:
    decide: Decide
    done: asyncio.Future[ClusterImage]
    #: What the command itself has raised; answered only when the image that it was decided on is stored.
    error: Exception | None = None


class Metadata:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        #: The cluster as the log says; read by everybody, changed only here.
        self.image: ClusterImage = EMPTY_IMAGE
        #: The epoch of this broker as the controller; None while it is not.
        self.controller_epoch: int | None = None
        self._listeners: list[ImageListener] = []
        self._waiting: list[_Submission] = []
        self._background = Background()
        self._working = False
        self._closed = False
        #: The log may hold what the image lacks: load before the next decision.
        self._behind = False
        #: A call to the store is under way, and what others have changed meanwhile waits for its end.
        self._calling = False
        self._arrived: list[Changes] = []

    async def open(self) -> ClusterImage:
        """Loads the image and follows the log from there on."""
        await self._load()
        self._store.watch(self._watched)
        return self.image

    async def close(self) -> None:
        """Stops; what has not been stored is refused. Whoever has opened the store closes it."""
        self._closed = True
        await self._background.stop()
        _refuse(self._waiting, _stopping())
        self._waiting.clear()

    def on_change(self, listener: ImageListener) -> None:
        self._listeners.append(listener)

    async def submit(self, decide: Decide) -> ClusterImage:
        """Appends what ``decide`` makes of the image; the answer is an image that holds it.

        ``decide`` must be pure: it is called again when another broker was faster. What it raises is raised
        here; KAFKA_STORAGE_ERROR says that the store has failed.
        """
        if self._closed:
            raise _stopping()
        submission = _Submission(decide, asyncio.get_running_loop().create_future())
        self._waiting.append(submission)
        self._start_work()
        return await submission.done

    async def execute(self, command: Callable[[ClusterImage], Decision[_Outcome]]) -> _Outcome:
        """``submit`` for a command with an outcome: what it came to on the image that was stored."""
        decision: Decision[_Outcome] | None = None

        def decide(image: ClusterImage) -> Sequence[Record]:
            nonlocal decision
            decision = command(image)
            return decision.records

        await self.submit(decide)
        assert decision is not None
        return decision.outcome

    # --- Deciding and appending --------------------------------------------------------------------------

    def _start_work(self) -> None:
        if not self._working:
            self._working = True
            self._background.start(self._work(), "metadata commands")

    async def _work(self) -> None:
        group: list[_Submission] = []
        try:
            while self._waiting or self._behind:
                group, self._waiting = self._waiting, []
                try:
                    await self._bring_into_log(group)
                except MetadataError as error:
                    _logger.error("The metadata log cannot be used: %s", error)
                    _refuse(group, _storage_error())
                    if not self._waiting:
                        break
                except StaleControllerEpoch:
                    _refuse(
                        group, KafkaError(ErrorCode.NOT_CONTROLLER, "Another broker is the controller now.")
                    )
                except KafkaError as error:
                    _refuse(group, error)
        finally:
            self._working = False
            # Nobody is left here but by a cancelled task or a programmer's error, which is reported.
            _refuse(group, _stopping())

    async def _bring_into_log(self, group: list[_Submission]) -> None:
        """Decides and appends until the group is empty: at once, unless it is very large."""
        attempts = 0
        while group or self._behind:
            if self._behind:
                await self._load()
            image, records, decided = self._decide(group)
            if records:
                try:
                    await self._append(image, records)
                except StaleVersion:
                    attempts += 1
                    if attempts == _MAX_ATTEMPTS:
                        raise KafkaError(
                            ErrorCode.REQUEST_TIMED_OUT,
                            "Other brokers are changing the metadata all the time.",
                        ) from None
                    continue
            for submission in group[:decided]:
                _answer(submission, self.image)
            del group[:decided]

    def _decide(self, group: Sequence[_Submission]) -> tuple[ClusterImage, list[Record], int]:
        """The image after the commands, their records, and how many of the commands found room."""
        image = self.image
        records: list[Record] = []
        for decided, submission in enumerate(group):
            if len(records) >= _MAX_RECORDS_PER_APPEND:
                return image, records, decided
            if submission.done.done():
                continue
            submission.error = None
            try:
                decision = submission.decide(image)
                if decision:
                    image = image.apply_all(decision, version=self.image.version + 1)
                    records.extend(decision)
            except Exception as error:  # whatever it is, it belongs to the one who has asked
                submission.error = error
        return image, records, len(group)

    async def _append(self, image: ClusterImage, records: Sequence[Record]) -> None:
        self._calling = True
        try:
            version = await self._store.append(records, self.image.version, self.controller_epoch)
            assert version == image.version, "one append is one version"
            self._move(image, records)
        except StaleControllerEpoch:
            raise
        except BaseException:
            # Stale, or it is open whether the records are in the log: the log knows.
            self._behind = True
            raise
        finally:
            self._called()

    async def _load(self) -> None:
        self._calling = True
        try:
            self._receive(await self._store.load(self.image.version))
            self._behind = False
        finally:
            self._called()

    def _called(self) -> None:
        self._calling = False
        arrived, self._arrived = self._arrived, []
        for changes in arrived:
            self._receive(changes)

    # --- Following the log -------------------------------------------------------------------------------

    def _watched(self, changes: Changes) -> None:
        if self._calling:
            self._arrived.append(changes)
        else:
            self._receive(changes)

    def _receive(self, changes: Changes) -> None:
        if changes.version <= self.image.version:
            return
        if changes.after_version == self.image.version:
            self._move(self.image.apply_all(changes.records, version=changes.version), changes.records)
        elif changes.after_version == 0:
            # The records in between are no longer kept; those who listen get others that come to the same.
            image = EMPTY_IMAGE.apply_all(changes.records, version=changes.version)
            self._move(image, difference(self.image, image))
        else:
            self._behind = True
            self._start_work()

    def _move(self, image: ClusterImage, records: Sequence[Record]) -> None:
        before, self.image = self.image, image
        for listener in self._listeners:
            listener(before, image, records)


def _answer(submission: _Submission, image: ClusterImage) -> None:
    if submission.done.done():
        return
    if submission.error is not None:
        submission.done.set_exception(submission.error)
    else:
        submission.done.set_result(image)


def _refuse(submissions: Iterable[_Submission], error: KafkaError) -> None:
    for submission in submissions:
        if not submission.done.done():
            # One object for each: a raised exception collects the traceback of the one who gets it.
            submission.done.set_exception(KafkaError(error.code, error.message))


def _stopping() -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, "The broker is stopping.")


def _storage_error() -> KafkaError:
    return KafkaError(
        ErrorCode.KAFKA_STORAGE_ERROR, "The metadata log could not be written; the broker's own log says why."
    )
