"""Notes of people on jobs. They go with their job; the audit trail keeps who wrote or removed one, not its text."""

from sqlalchemy import func, select

from dragoman.model.errors import UserError
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.ledger.tables import Job, Note

MOST = 100  # of a job


class Notes:
    """The notes in a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def of(self, job: str) -> list[Note]:
        """Returns a job's notes, oldest first."""
        with self.ledger.database.read() as session:
            return list(session.scalars(select(Note).where(Note.job == job).order_by(Note.id)))

    def add(self, job: Job, author: str, text: str) -> Note:
        """Adds a note. Raises UserError if the job has too many."""
        note = Note(job=job.id, at=self.ledger.now(), author=author, text=text)
        with self.ledger.database.write() as session:
            if (session.scalar(select(func.count()).where(Note.job == job.id)) or 0) >= MOST:
                raise UserError(f"job {job.id} has {MOST} notes: remove one first")
            session.add(note)
        self.ledger.note(author, "note", "added", job.owner, job.id)
        return note

    def get(self, job: str, number: int) -> Note:
        """Returns a note of a job. Raises UserError if there is none of that number."""
        with self.ledger.database.read() as session:
            found = session.get(Note, number)
        if found is None or found.job != job:
            raise UserError(f"job {job} has no note {number}")
        return found

    def remove(self, job: Job, note: Note, actor: str) -> None:
        """Removes a note."""
        with self.ledger.database.write() as session:
            session.delete(note)
        self.ledger.note(actor, "note", "removed", job.owner, job.id)
