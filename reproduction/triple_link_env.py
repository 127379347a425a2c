"""The triple-link pendulum as a Gymnasium environment, `sparsetd/TripleLink-v0`.

Observation: the state (x, θ1, θ2, θ3, ẋ, θ̇1, θ̇2, θ̇3). Actions 0, 1, 2 are 0, +5 and −5 N, held for `dt` seconds.
The reward is −1 on the step that fails (cart off the track or a link beyond 20°) and 0 otherwise; failing terminates,
a time limit only truncates. Episodes start at rest in the upright equilibrium, which is a fixed point of action 0: the
paper lets the first action be random.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduction.triple_link_plant import FORCES, TRACK, Plant, failed, rk4
from sparsetd.system import Array

try:
    import gymnasium as gym
except ImportError as error:  # pragma: no cover
    raise ImportError("The triple-link environment needs Gymnasium: pip install gymnasium") from error

ENV_ID = "sparsetd/TripleLink-v0"
HEIGHT, WIDTH = 260, 480
# Okabe–Ito colours: told apart by colour-blind readers, and in print.
LINK_COLOURS = ((0, 114, 178), (213, 94, 0), (0, 158, 115))


class TripleLinkEnv(gym.Env[Array, Any]):
    """Balance three links on a cart by pushing it left, right or not at all."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012  (an instance variable of gym.Env)

    def __init__(
        self,
        dt: float = 0.005,
        substeps: int = 1,
        plant: Plant | None = None,
        render_mode: str | None = None,
        initial_spread: float = 0.0,
    ) -> None:
        self.dt, self.substeps, self.initial_spread = dt, substeps, initial_spread
        self.plant = plant or Plant()
        self.render_mode = render_mode
        self.action_space = gym.spaces.Discrete(len(FORCES))
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (8,), np.float64)
        self._constants = self.plant.constants()
        self.state = np.zeros(8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Back to rest, plus normal noise of size `initial_spread`; `options={"state": s}` starts elsewhere."""
        super().reset(seed=seed)
        start = np.zeros(8) if not options or "state" not in options else np.asarray(options["state"], dtype=float)
        noise = self.np_random.normal(size=8) if self.initial_spread else np.zeros(8)
        self.state = start + self.initial_spread * noise
        return self.state.copy(), {}

    def step(self, action: int) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self.state = rk4(self.state, float(FORCES[action]), self._constants, self.dt, self.substeps)
        down = failed(self.state)
        return self.state.copy(), -1.0 if down else 0.0, down, False, {}

    def render(self) -> Array | None:
        """An RGB image of cart and links, `None` without a render mode."""
        return draw(self.state, self.plant) if self.render_mode == "rgb_array" else None


def draw(state: Array, plant: Plant) -> Array:
    """Raster of the pendulum: every segment is the set of pixels nearer to it than its half-width."""
    image = np.full((HEIGHT, WIDTH, 3), 255, dtype=np.uint8)
    scale, ground = WIDTH / (2.3 * TRACK), HEIGHT - 30.0
    joint = np.array([WIDTH / 2 + scale * state[0], ground - 10.0])
    edges = WIDTH / 2 + scale * TRACK * np.array([-1.0, 1.0])
    _segment(image, np.array([edges[0], ground]), np.array([edges[1], ground]), 1.0, (120, 120, 120))
    half = np.array([22.0, 0.0])
    _segment(image, joint - half, joint + half, 8.0, (60, 60, 60))
    for angle, length, colour in zip(state[1:4], plant.length, LINK_COLOURS, strict=True):
        tip = joint + scale * length * np.array([np.sin(angle), -np.cos(angle)])
        _segment(image, joint, tip, 4.0, colour)
        joint = tip
    return image


def _segment(image: Array, start: Array, end: Array, half_width: float, colour: tuple[int, int, int]) -> None:
    rows, columns = np.mgrid[: image.shape[0], : image.shape[1]]
    along = end - start
    share = np.clip(((columns - start[0]) * along[0] + (rows - start[1]) * along[1]) / (along @ along), 0.0, 1.0)
    distance = np.hypot(columns - start[0] - share * along[0], rows - start[1] - share * along[1])
    image[distance <= half_width] = colour


def register() -> None:
    """Make `gymnasium.make("sparsetd/TripleLink-v0")` work; the paper's longer test has 100,000 steps."""
    if ENV_ID not in gym.registry:
        gym.register(ENV_ID, entry_point=f"{__name__}:TripleLinkEnv", max_episode_steps=10_000)


register()
