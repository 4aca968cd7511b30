"""The section `service.keep`: which ended jobs and rows of the audit the service deletes."""

from dataclasses import dataclass

from dragoman.model.ranges import Amount, Whole


@dataclass
class KeepConfig:
    """Ages are in days since a job's end; 0: jobs that ended so are never deleted."""

    succeeded: Amount = 0.0
    failed: Amount = 0.0  # or lost
    stopped: Amount = 0.0
    newest: Whole = 100  # ended jobs of each owner that stay, whatever their age
    most: Whole = 0  # ended jobs of each owner; older ones are deleted, whatever their age; 0: no limit
    runs: bool = True  # delete a training's folder with its last job; never that of a registered version

    audit: Amount = 365.0  # days that a row of the audit is kept; 0: for ever

    def active(self) -> bool:
        """Returns True if any job may ever be deleted."""
        return bool(self.succeeded or self.failed or self.stopped or self.most)
