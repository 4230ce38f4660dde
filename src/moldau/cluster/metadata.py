"""The broker's metadata: the current image, and the one way to change it.

Every broker follows the log; the controller alone decides and appends (``controller_epoch`` is set), and a
command on any other broker is refused with NOT_CONTROLLER. While an append is in flight, further commands
wait and then share the next append: creating a hundred topics costs a few fsyncs.

What this broker makes of a change may have to wait for its disk; others need not wait for that. So a
controller decides on the end of the log, which may be ahead of ``image``, what it has applied itself.

Invariant: commands are decided one after the other, each on the image after all commands before it. Nothing
is applied or answered before the store has it. Listeners are called in the order of the log with every
change, whichever broker made it; what a change needs of the disk is awaited before and after them, and no
other change comes in between. Whatever fails while a change is applied, those after it are applied.
Everything runs on the event loop.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from moldau.base.tasks import Background
from moldau.cluster.controller.commands import ControllerResult
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage, difference
from moldau.cluster.records import MetadataError, Record, TopicCreated, TopicDeleted
from moldau.cluster.store.contract import Changes, MetadataStore, StaleControllerEpoch, StaleVersion
from moldau.protocol.errors import ErrorCode, KafkaError

_logger = logging.getLogger(__name__)

Decide = Callable[[ClusterImage], Sequence[Record]]
#: (image before, image after, the records between them)
MetadataListener = Callable[[ClusterImage, ClusterImage, Sequence[Record]], None]
#: (image before, image after); None when there is nothing to wait for.
MakeReady = Callable[[ClusterImage, ClusterImage], Awaitable[None] | None]
_Response = TypeVar("_Response")

#: An append with so many records takes no more commands; the others go into the next one.
_MAX_RECORDS_PER_APPEND = 10_000
#: After so many appends in a row at a stale version, the client has to retry.
_MAX_ATTEMPTS = 50


@dataclass(slots=True, eq=False)
class _Submission:
    decide: Decide
    done: asyncio.Future[ClusterImage]
    #: Answered as soon as the log has it, whether this broker has applied it or not.
    when_stored: bool = False
    #: What the command itself raised; reported only once the image that it was decided on is stored.
    error: Exception | None = None


@dataclass(slots=True, frozen=True)
class _Change:
    """What the log has and this broker has not applied yet; without records there are only answers."""

    image: ClusterImage
    records: Sequence[Record]
    answers: Sequence[_Submission]


class Metadata:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        #: The current image; read everywhere, replaced only here.
        self.image: ClusterImage = EMPTY_IMAGE
        #: The image at the end of the log, as far as this broker knows; what a controller goes by.
        self.known: ClusterImage = EMPTY_IMAGE
        #: Told of each step of ``known``, before and after; this broker may apply it later.
        self.on_known: Callable[[ClusterImage, ClusterImage], None] = lambda before, after: None
        #: This broker's controller epoch; None while it is not the controller.
        self.controller_epoch: int | None = None
        #: Called when the store says that another broker has become the controller since.
        self.on_deposed: Callable[[], None] = lambda: None
        #: Awaited before and after the listeners hear of a change.
        self.make_ready: MakeReady = lambda before, after: None
        self.clear_up: Callable[[], Awaitable[None] | None] = lambda: None
        self._listeners: list[MetadataListener] = []
        self._next_change: asyncio.Future[None] | None = None
        self._waiting: list[_Submission] = []
        self._background = Background()
        self._working = False
        self._closed = False
        #: The log may be ahead of the image: load before the next command is decided.
        self._must_reload = False
        self._refreshing: list[_Submission] = []
        #: While a call to the store is in flight, changes by other brokers are deferred until it ends.
        self._in_store_call = False
        self._deferred_changes: list[Changes] = []
        #: What the log has and this broker has not applied; the first one may wait for the disk.
        self._due: deque[_Change] = deque()
        self._steps: Iterator[Awaitable[None]] | None = None

    async def open(self) -> ClusterImage:
        """Loads the image and follows the log from there on."""
        await self._load()
        self._store.watch(self._on_changes)
        return self.image

    async def close(self) -> None:
        """Stops; commands that are not stored yet are refused. Whoever opened the store closes it."""
        self._closed = True
        await self._background.stop()
        for change in self._due:  # the log has it, and nobody is to ask for it again
            for submission in change.answers:
                _answer(submission, change.image)
        _refuse(self._waiting, _stopping())
        self._waiting.clear()

    def on_change(self, listener: MetadataListener) -> None:
        self._listeners.append(listener)

    async def next_change(self) -> None:
        """Returns with the next change of the image."""
        self._next_change = self._next_change or asyncio.get_running_loop().create_future()
        await asyncio.shield(self._next_change)

    async def submit(self, decide: Decide, *, when_stored: bool = False) -> ClusterImage:
        """Appends the records that ``decide`` returns for the image; returns the image after them.

        It returns when this broker has applied them, or ``when_stored``: for what others ask, who follow the
        log themselves.

        ``decide`` must be pure: it is called again when another broker appended first. What it raises is
        raised here; KAFKA_STORAGE_ERROR means that the store has failed.
        """
        if self._closed:
            raise _stopping()
        if self.controller_epoch is None:
            raise _not_controller()
        done: asyncio.Future[ClusterImage] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Submission(decide, done, when_stored))
        self._start_work()
        try:
            return await done
        finally:
            del done  # the stack of an error would lead back to the error

    async def execute(
        self, command: Callable[[ClusterImage], ControllerResult[_Response]], *, when_stored: bool = False
    ) -> _Response:
        """``submit`` for a command with a response."""
        result: ControllerResult[_Response] | None = None

        def decide(image: ClusterImage) -> Sequence[Record]:
            nonlocal result
            result = command(image)
            return result.records

        await self.submit(decide, when_stored=when_stored)
        assert result is not None
        return result.response

    async def refresh(self) -> ClusterImage:
        """Loads what the log has now: afterwards the image has every change that was answered before."""
        if self._closed:
            raise _stopping()
        done: asyncio.Future[ClusterImage] = asyncio.get_running_loop().create_future()
        self._refreshing.append(_Submission(lambda image: (), done))
        self._must_reload = True
        self._start_work()
        return await done

    async def sessions(self) -> frozenset[int]:
        """The brokers that have a session now; KAFKA_STORAGE_ERROR when the store does not say."""
        try:
            return await self._store.sessions()
        except MetadataError as error:
            _logger.error("The sessions of the brokers cannot be read: %s", error)
            raise _storage_error() from None

    # --- Deciding and appending --------------------------------------------------------------------------

    def _start_work(self) -> None:
        if not self._working:
            self._working = True
            self._background.start(self._work(), "metadata commands")

    async def _work(self) -> None:
        group: list[_Submission] = []
        try:
            while self._waiting or self._must_reload:
                group, self._waiting = self._waiting, []
                try:
                    await self._decide_and_append(group)
                except MetadataError as error:
                    _logger.error("The metadata log cannot be used: %s", error)
                    _refuse(group, _storage_error())
                    if not self._waiting:
                        break
                except StaleControllerEpoch:
                    self.controller_epoch = None
                    self.on_deposed()
                    _refuse(group, _not_controller())
                except KafkaError as error:
                    _refuse(group, error)
        finally:
            self._working = False
            self._end_refreshes(_storage_error())
            # Only a cancelled task or an unexpected exception leaves commands here.
            _refuse(group, _stopping() if self._closed else _not_known())
            if self._waiting and not self._closed:
                self._start_work()

    async def _decide_and_append(self, group: list[_Submission]) -> None:
        """Decides and appends until the group is empty: with one append, unless it is very large."""
        attempts = 0
        while group or self._must_reload:
            if self._must_reload:
                await self._load()
            image, records, decided = self._decide(group)
            answers = group[:decided]
            if not records:
                self._take(image, records, answers)
            else:
                try:
                    await self._append(image, records, answers)
                except StaleVersion:
                    attempts += 1
                    if attempts == _MAX_ATTEMPTS:
                        raise KafkaError(
                            ErrorCode.REQUEST_TIMED_OUT,
                            "Other brokers are changing the metadata all the time.",
                        ) from None
                    continue
            del group[:decided]

    def _decide(self, group: Sequence[_Submission]) -> tuple[ClusterImage, list[Record], int]:
        """The image after the commands, their records, and how many of the commands fit into the append.

        A topic never comes in the append in which one of its name goes: a broker needs the name's directories
        to be gone before it makes others, and both take their time on a busy disk.
        """
        image = self.known
        records: list[Record] = []
        gone: set[str] = set()
        for decided, submission in enumerate(group):
            if len(records) >= _MAX_RECORDS_PER_APPEND:
                return image, records, decided
            if submission.done.done():
                continue
            submission.error = None
            try:
                decided_records = submission.decide(image)
                if decided_records:
                    if gone and any(
                        isinstance(each, TopicCreated) and each.name in gone for each in decided_records
                    ):
                        return image, records, decided
                    gone.update(
                        image.topics_by_id[each.topic_id].name
                        for each in decided_records
                        if isinstance(each, TopicDeleted)
                    )
                    image = image.apply_all(decided_records, version=self.known.version + 1)
                    records.extend(decided_records)
            except Exception as error:  # raised to the caller of submit, whatever it is
                submission.error = error.without_stack() if isinstance(error, KafkaError) else error
        return image, records, len(group)

    async def _append(
        self, image: ClusterImage, records: Sequence[Record], answers: Sequence[_Submission]
    ) -> None:
        self._in_store_call = True
        try:
            if self.controller_epoch is None:
                raise StaleControllerEpoch
            version = await self._store.append(records, self.known.version, self.controller_epoch)
            assert version == image.version, "one append is one version"
            self._take(image, records, answers)
        except StaleControllerEpoch:
            raise
        except BaseException:
            # The image is stale, or it is unknown whether the records were appended.
            self._must_reload = True
            raise
        finally:
            self._store_call_ended()

    async def _load(self) -> None:
        self._in_store_call = True
        # Who asks from here on may have been answered after the store was read.
        refreshing, self._refreshing = self._refreshing, []
        self._must_reload = False
        try:
            self._receive(await self._store.load(self.known.version))
            self._take(self.known, (), refreshing)
        except BaseException:
            self._must_reload = True
            self._refreshing += refreshing
            raise
        finally:
            self._store_call_ended()

    def _end_refreshes(self, error: KafkaError) -> None:
        refreshing, self._refreshing = self._refreshing, []
        _refuse(refreshing, error)

    def _store_call_ended(self) -> None:
        self._in_store_call = False
        arrived, self._deferred_changes = self._deferred_changes, []
        for changes in arrived:
            self._receive(changes)

    # --- Following the log -------------------------------------------------------------------------------

    def _on_changes(self, changes: Changes) -> None:
        if self._in_store_call:
            self._deferred_changes.append(changes)
        else:
            self._receive(changes)

    def _receive(self, changes: Changes) -> None:
        if changes.version <= self.known.version:
            return
        if changes.after_version == self.known.version:
            self._take(self.known.apply_all(changes.records, version=changes.version), changes.records)
        elif changes.after_version == 0:
            # The records in between were compacted away: listeners get equivalent ones.
            image = EMPTY_IMAGE.apply_all(changes.records, version=changes.version)
            self._take(image, difference(self.known, image))
        else:
            self._must_reload = True
            self._start_work()

    def _take(
        self, image: ClusterImage, records: Sequence[Record], answers: Sequence[_Submission] = ()
    ) -> None:
        """The log has come to ``image``: it is applied at once, unless the disk is to be waited for."""
        if self._closed:
            _refuse(answers, _stopping())
            return
        before, self.known = self.known, image
        with _logged():
            self.on_known(before, image)
        for submission in answers:
            if submission.when_stored:
                _answer(submission, image)
        self._due.append(_Change(image, records, answers))
        if self._steps is None:
            self._steps = self._apply_due()
            self._go_on()

    def _go_on(self) -> None:
        """Up to the next thing that has to be awaited."""
        assert self._steps is not None
        for work in self._steps:
            self._background.start(self._go_on_after(work), "metadata change")
            return
        self._steps = None

    async def _go_on_after(self, work: Awaitable[None]) -> None:
        with _logged():
            await work
        self._go_on()

    def _apply_due(self) -> Iterator[Awaitable[None]]:
        """Applies change after change; gives what is to be awaited before it goes on."""
        while self._due:
            change = self._due[0]
            if change.image is not self.image:
                yield from self._apply(change)
            for submission in change.answers:
                _answer(submission, change.image)
            self._due.popleft()
            if self._due:
                yield asyncio.sleep(0)  # many may have come while the disk was busy

    def _apply(self, change: _Change) -> Iterator[Awaitable[None]]:
        work: Awaitable[None] | None = None
        with _logged():
            work = self.make_ready(self.image, change.image)
        if work is not None:
            yield work
        before, self.image = self.image, change.image
        for listener in self._listeners:
            with _logged():
                listener(before, change.image, change.records)
        if self._next_change is not None:
            self._next_change.set_result(None)
            self._next_change = None
        work = None
        with _logged():
            work = self.clear_up()
        if work is not None:
            yield work


@contextmanager
def _logged() -> Iterator[None]:
    """The log of the metadata has the change already: whatever this broker fails to do, it goes on."""
    try:
        yield
    except Exception:
        _logger.exception("a change of the metadata could not be applied in all its parts")


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
            # One exception for each caller, because raising adds the caller's traceback to it.
            submission.done.set_exception(KafkaError(error.code, error.message))


def _stopping() -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, "The broker is stopping.")


def _not_known() -> KafkaError:
    message = "The broker failed, perhaps after it had stored the change; its own log says where."
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message)


def _not_controller() -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, "Another broker is the controller.")


def _storage_error() -> KafkaError:
    return KafkaError(
        ErrorCode.KAFKA_STORAGE_ERROR, "The metadata log could not be written; the broker's own log says why."
    )
