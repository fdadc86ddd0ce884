"""Steps of `forebay compile` that processes find under their names."""


def draw_numbers() -> None:
    from forebay.model.random_numbers import draw, seed_state

    draw(seed_state(1), 10)


def need_a_group() -> None:
    raise ModuleNotFoundError("No module named 'sqlalchemy'", name="sqlalchemy")


def need_what_is_not_there() -> None:
    raise ModuleNotFoundError("No module named 'nowhere'", name="nowhere")
