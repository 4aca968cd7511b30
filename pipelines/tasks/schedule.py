"""Decides where a run's learning rate ends: planned at the beginning and kept, changed only on request.

A cosine or a line depends on its last step. If that were always the start's `train.max_steps`, the rate of a resumed
run with another value would jump silently. Every plan is stored in RUN/run.json, in order: `{"from_step", "max_steps",
"schedule_steps"[, "last_step"]}`; the last is the step at which `train.max_minutes` ends the run.
"""

import logging
from dataclasses import replace

from dragoman.model.errors import UserError
from dragoman.model.runs import checkpoints
from dragoman.model.runs.record import PLANS, read_plans, read_record, write_record
from dragoman.pipelines.config import Config
from dragoman.pipelines.settings import TrainConfig
from dragoman.pipelines.tasks.workers import is_first
from dragoman.pipelines.training.optimizer import WITH_AN_END, learning_rate
from dragoman.pipelines.training.time_limit import Limit, kept_limit

logger = logging.getLogger(__name__)


def settle_schedule(config: Config) -> Config:
    """Stores the run's plan in the claimed folder; returns the configuration with its `train.schedule_steps` settled.

    It is the requested value; else that of the run's last plan; else, without a checkpoint, `max_steps`. A schedule
    without an end is left as it is.
    """
    train, record = config.train, read_record(config.run_dir)
    if record is None or "train" not in record:  # word vectors have epochs
        return config
    begun = checkpoints.newest_step(config.run_dir)
    plans = read_plans(config.run_dir) if begun else []
    limit = kept_limit(checkpoints.state(checkpoints.last(config.run_dir)), train) if begun else Limit()
    if plans and limit.steps:  # the training itself follows its limit
        plan = plans[-1] | {"last_step": limit.steps}
        plan |= {key: value for key, value in limit.settings.items() if key == "schedule_steps"}
        if is_first():
            write_record(config.run_dir, {**record, PLANS: [*plans[:-1], plan]})
        return config
    kept = plans[-1]["schedule_steps"] if plans else train.max_steps
    settled = replace(train, schedule_steps=train.schedule_steps or kept)
    plan = {"from_step": begun, "max_steps": train.max_steps, "schedule_steps": settled.schedule_steps}
    has_end = train.optimizer.schedule in WITH_AN_END
    if plans and has_end:
        _report(train, settled, kept, begun)
    if not plans or plan != {**plans[-1], "from_step": begun}:
        plans = [*plans, plan]
    if is_first() and plans != record.get(PLANS):
        write_record(config.run_dir, {**record, PLANS: plans})
    return replace(config, train=settled) if has_end else config


def describe_plans(config: Config) -> str:
    """Returns the run's plans in a line; empty if neither its schedule nor its time has an end."""
    schedule = config.train.optimizer.schedule
    return "; ".join(
        f"from step {plan['from_step']:,}: {schedule} to step {plan['schedule_steps']:,}, "
        f"trained to step {plan.get('last_step', plan['max_steps']):,}"
        for plan in read_plans(config.run_dir)
        if schedule in WITH_AN_END or "last_step" in plan
    )


def _report(train_config: TrainConfig, settled: TrainConfig, kept: int, begun: int) -> None:
    optimizer, steps, end = settled.optimizer, settled.schedule_steps, settled.max_steps
    if steps != kept:
        before, after = (learning_rate(optimizer, begun + 1, steps_planned) for steps_planned in (kept, steps))
        logger.warning(
            f"train.schedule_steps={steps}: the {optimizer.schedule} schedule of this run ended at step {kept:,} and "
            f"ends at step {steps:,} from now on; the rate of step {begun + 1:,} is {after:.3g} instead of {before:.3g}"
        )
    if steps <= begun < end and not learning_rate(optimizer, end, steps):
        raise UserError(
            f"train.max_steps={end}: the {optimizer.schedule} schedule of this run ended at step {steps:,}, so further "
            f"steps would have the rate 0; train.schedule_steps={end} moves its end there"
        )
    if end != steps == kept and not train_config.schedule_steps:
        logger.warning(
            f"train.max_steps={end}: the {optimizer.schedule} schedule of this run ends at step {steps:,} as it was "
            f"planned; the rate at step {end:,} is {learning_rate(optimizer, end, steps):.3g}. "
            f"train.schedule_steps={end} moves its end there"
        )


def warn_of_warmup(config: Config) -> None:
    """Warns if a run hardly reaches its learning rate: such warm-ups are usually meant for a longer run."""
    warmup, steps = config.train.optimizer.warmup_steps, config.train.max_steps
    if 3 * warmup > steps and warmup > max(1, steps // 10):
        logger.warning(
            f"train.optimizer.warmup_steps={warmup}: more than a third of train.max_steps={steps}; the learning rate "
            + (f"reaches {config.train.optimizer.lr:g} late" if warmup < steps else "never reaches its height")
            + f", and train.optimizer.warmup_steps={max(1, steps // 10)} would leave it time to fall"
        )
