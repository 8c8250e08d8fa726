"""The verbs that keep a store in order, and move memories in and out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, Unpack

from salience import keywords
from salience.engine.base import Base
from salience.keywords import CallerKeywords, ScopeKeywords
from salience.maintain import calibrate as calibrations
from salience.maintain import doctor, reembed, reflect, tiers, upkeep
from salience.models import calibration
from salience.ports import Calibration, Embedder
from salience.records import (
    ConsolidateReport,
    DoctorReport,
    ReembedReport,
    ReflectReport,
    SessionReport,
    TransferReport,
    UpkeepReport,
    checks,
)
from salience.transfer import export, files, import_


class Keeping(Base):
    """Tiers, reflection, repair, transfer."""

    def end_session(self, session_id: str, **where: Unpack[CallerKeywords]) -> SessionReport:
        """Move the session's memories to the tiers that they have earned and return which moved."""
        return tiers.end_session(self.services, self._scope({**where})[0], session_id)

    def export(
        self,
        file: files.File,
        *,
        overwrite: bool = False,
        progress: files.Progress | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> TransferReport:
        """Write memories with their versions and vectors as lines of JSON, and return the count.

        A coordinate that is not named stands for every value, so that an export without scope keywords is whole. A
        file that is there is refused unless it may be overwritten and is an export itself; it is replaced only once
        the new one is whole.
        """
        scope, _ = self._scope({**keywords.EVERYWHERE, **where})
        with files.writing(file, overwrite) as target:
            return export.export(self.services, scope, target, progress)

    def import_(
        self,
        file: files.File,
        *,
        on_error: Literal["stop", "skip"] = "stop",
        progress: files.Progress | None = None,
        **where: Unpack[ScopeKeywords],
    ) -> TransferReport:
        """Store the memories of an export, or of drafts as lines of JSON, and return counts.

        `on_error` says what a broken line does: `stop` stores nothing and raises; `skip` reports it and goes on.
        """
        checks.choice("on_error", on_error, ("stop", "skip"))
        with files.reading(file) as source:
            return import_.import_(self.services, self._home(where), source, skip=on_error == "skip", progress=progress)

    def calibrate(
        self,
        pairs: Iterable[object],
        *,
        source: str = "pairs of this installation",
        file: str | Path | None = None,
        progress: calibrations.Progress | None = None,
    ) -> Calibration:
        """Return what the embedder's cosines mean, fitted on pairs of texts that people judged; nothing is stored.

        The engine goes on with the calibration that it was made with; `connect` takes the one that is in the file of
        the setting `calibrations`.

        Args:
            pairs: `Judged`, or (text, text, relatedness from 0 to 1); at least 20 from 0.75 on and 20 below 0.5.
            source: the data, as the calibration is to name it.
            file: where to keep it under the embedder's name; None keeps it nowhere.
            progress: called with the number of texts embedded so far.
        """
        fitted = calibrations.calibrate(self.services, calibrations.judged(pairs), source, progress)
        if file is not None:
            calibration.save(Path(file), self.services.embedder.name, fitted)
        return fitted

    def consolidate(self, *, dry_run: bool = False, **where: Unpack[CallerKeywords]) -> ConsolidateReport:
        """Move the visible memories to the tiers that they have earned, all or none, and return which moved."""
        return tiers.consolidate(self.services, self._scope({**where})[0], dry_run=dry_run)

    def reflect(
        self, *, dry_run: bool = False, progress: reflect.Progress | None = None, **where: Unpack[CallerKeywords]
    ) -> ReflectReport:
        """Consolidate, then sum up clusters of related memories in one semantic memory each, which names its sources.

        Sources stay. Reflections whose sources changed are made anew; a second run without a change writes nothing.
        `progress` is called with how many memories were looked at since the last call.
        """
        tiers.consolidate(self.services, self._scope({**where})[0], dry_run=dry_run)
        return reflect.reflect(
            self.services, self._scope({**where})[0], dry_run=dry_run, progress=progress or (lambda _: None)
        )

    def upkeep(self, *, dry_run: bool = False) -> UpkeepReport:
        """Do all that is due, for every scope of the tenant, and return what was done.

        Pending memories are embedded, those whose time ran out are put out of sight, tiers are moved, and old versions
        dropped as the setting `keep_versions` asks. One of many processes does it at a time: `LeaseError` while
        another is at it.
        """
        return upkeep.upkeep(self.services, dry_run=dry_run)

    def reembed(
        self, embedder: str | Embedder | None = None, *, progress: reembed.Progress | None = None
    ) -> ReembedReport:
        """Embed every memory and version anew with another model, and go over to it; return what was done.

        Recalls and writes go on under the old model until all is ready. A run that was cut short goes on where it
        stopped when it is started again. Then this engine uses the new model. Others that have the store open go over
        to it at their next calls if it is one that they can load by its name; until then, and where they cannot, they
        answer by words and store memories as pending.

        Args:
            embedder: its name, or itself; None for the one that this engine embeds with.
            progress: called with how many are done, and of how many.
        """
        services = self.services if embedder is None else self._under(embedder)
        report = reembed.reembed(services, progress)
        self.services = services
        return report

    def doctor(
        self, *, repair: bool = False, deep: bool = False, progress: doctor.Progress | None = None
    ) -> DoctorReport:
        """Check the whole store, mend what is derived if `repair` asks for it, and return what was wrong.

        `deep` embeds every text anew and holds the vectors against that. `progress` is called with the number of
        memories read so far.
        """
        return doctor.doctor(self.services, repair=repair, deep=deep, progress=progress)

    def backup(
        self,
        file: str | Path,
        *,
        overwrite: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Write a copy of the store, as it stands, to a new file while others read and write; the copy is a store.

        A file that is there is refused unless it may be overwritten and is a store itself, or empty; it is replaced
        only once the copy is whole. `progress` is called with the pages that are left and the pages in all.
        """
        self.services.store.backup(str(file), progress, overwrite=overwrite)

    def close(self) -> None:
        """Release the file or connection."""
        self.services.store.close()
