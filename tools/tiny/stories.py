"""Generated stories: short, consistent, with names and things that come back, and questions about them.

What a byte-level model of this size can learn from them: words, sentences, who did what (so that attention looks things
up), and counting.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

NAMES = [
    "Mia",
    "Tom",
    "Anna",
    "Ben",
    "Lily",
    "Max",
    "Zoe",
    "Sam",
    "Ruby",
    "Leo",
    "Nora",
    "Finn",
    "Ella",
    "Jack",
    "Ivy",
    "Oscar",
    "Rose",
    "Hugo",
    "Clara",
    "Theo",
    "Maya",
    "Paul",
    "Ada",
    "Otto",
    "Emma",
    "Luke",
    "Iris",
    "Noah",
    "Tess",
    "Felix",
]
ANIMALS = [
    "cat",
    "dog",
    "fox",
    "rabbit",
    "hen",
    "owl",
    "mouse",
    "duck",
    "frog",
    "pony",
    "goat",
    "hedgehog",
    "squirrel",
    "sparrow",
    "turtle",
    "crow",
    "lamb",
    "beaver",
]
PETS = ["Pip", "Coco", "Biscuit", "Luna", "Shadow", "Button", "Pepper", "Hazel", "Misty", "Rusty", "Clover", "Snowy"]
COLOURS = ["red", "blue", "green", "yellow", "white", "black", "brown", "silver", "purple", "orange"]
THINGS = [
    "kite",
    "ball",
    "key",
    "hat",
    "lantern",
    "drum",
    "book",
    "boat",
    "bell",
    "cup",
    "coat",
    "map",
    "ribbon",
    "whistle",
    "basket",
    "scarf",
]
PLACES = [
    "the garden",
    "the old barn",
    "the market",
    "the river",
    "the forest",
    "the school",
    "the harbour",
    "the mill",
    "the library",
    "the hill",
    "the meadow",
    "the station",
]
WEATHER = [
    "It was a sunny morning.",
    "It was a cold and windy day.",
    "Soft rain fell on the roofs.",
    "Snow lay on the fields.",
    "It was a warm evening.",
    "Fog hung over the town.",
    "The sky was clear and blue.",
]
FOODS = ["apple", "pear", "plum", "cake", "bun", "pie", "carrot", "berry", "cookie", "nut"]
PLURALS = {"berry": "berries"}
SKILLS = [
    "swim",
    "ride a bicycle",
    "play the flute",
    "bake bread",
    "climb the big tree",
    "write letters",
    "skate",
    "sail",
]
FEELINGS = ["happy", "proud", "tired", "curious", "brave", "glad", "calm"]
NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]

Story = tuple[list[str], list[tuple[str, str]]]
"""Sentences; questions with their answers."""


def story(random: Random) -> str:
    """One story, often with questions and answers after it."""
    sentences, questions = random.choice(PLOTS)(random)
    text = " ".join(sentences)
    if random.random() < 0.6:
        text += "".join(f"\nQuestion: {q}\nAnswer: {a}" for q, a in random.sample(questions, min(2, len(questions))))
    return text + "\n"


def a(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


def several(count: int, food: str) -> str:
    return f"{NUMBERS[count]} {food if count == 1 else PLURALS.get(food, food + 's')}"


def two_names(random: Random) -> tuple[str, str]:
    first, second = random.sample(NAMES, 2)
    return first, second


def lost(random: Random) -> Story:
    name, friend = two_names(random)
    colour, thing = random.choice(COLOURS), random.choice(THINGS)
    place, wrong = random.sample(PLACES, 2)
    it = f"{colour} {thing}"
    return [
        random.choice(WEATHER),
        random.choice([f"{name} could not find the {it}.", f"{name} had lost {a(it)}."]),
        f"{name} looked in {wrong}, but the {thing} was not there.",
        random.choice([f'"Have you seen my {it}?" {name} asked.', f"Then {name} asked {friend} for help."]),
        random.choice(
            [
                f"{friend} went to {place} and found the {it}.",
                f"Together they walked to {place}. {friend} saw it first.",
            ]
        ),
        random.choice(
            [f'"Thank you, {friend}!" said {name}.', f"{name} was very {random.choice(FEELINGS)} and thanked {friend}."]
        ),
    ], [
        (f"What did {name} lose?", f"{name} lost {a(it)}."),
        (f"Where was the {thing}?", f"The {thing} was in {place}."),
        (f"Who found the {thing}?", f"{friend} found the {thing}."),
        (f"What colour was the {thing}?", f"The {thing} was {colour}."),
    ]


def pet(random: Random) -> Story:
    name, animal, called = random.choice(NAMES), random.choice(ANIMALS), random.choice(PETS)
    place, food = random.choice(PLACES), random.choice(FOODS)
    return [
        f"Once there was {a(animal)} who lived near {place}.",
        random.choice([f"The {animal} was called {called}.", f"Its name was {called}."]),
        f"Every day {name} came by and brought {several(random.randint(1, 4), food)}.",
        random.choice(
            [f"At first {called} was shy and hid.", f"{called} liked to sleep in the sun.", f"{called} was hungry."]
        ),
        f"But one day {called} came out and sat next to {name}.",
        random.choice(
            [f"From then on {name} and {called} were friends.", f'"We are friends now," said {name} to {called}.']
        ),
    ], [
        (f"What was the name of the {animal}?", f"The name of the {animal} was {called}."),
        (f"Who came to see {called}?", f"{name} came to see {called}."),
        (f"Where did {called} live?", f"{called} lived near {place}."),
    ]


def counting(random: Random) -> Story:
    name, friend = two_names(random)
    food, first, second = random.choice(FOODS), random.randint(1, 6), random.randint(1, 6)
    eaten = random.randint(1, first + second - 1)
    total, left = first + second, first + second - eaten
    return [
        f"{name} had {several(first, food)}.",
        f"{friend} gave {name} {several(second, food)} more.",
        f"Now {name} had {several(total, food)}.",
        f"Then they ate {several(eaten, food)} together.",
        f"So there {'was' if left == 1 else 'were'} {several(left, food)} left.",
    ], [
        (f"How many did {name} have at first?", f"{name} had {several(first, food)}."),
        (f"How many did {friend} give?", f"{friend} gave {several(second, food)}."),
        ("How many were left?", f"There {'was' if left == 1 else 'were'} {several(left, food)} left."),
    ]


def learning(random: Random) -> Story:
    name, friend = two_names(random)
    skill, place, days = random.choice(SKILLS), random.choice(PLACES), random.randint(2, 9)
    return [
        random.choice([f"{name} wanted to learn to {skill}.", f'"I want to {skill}," said {name}.']),
        f'{friend} said, "I can teach you. Come to {place} tomorrow."',
        random.choice(["The first day was hard.", "At first nothing went well.", "It was not easy."]),
        f"{name} tried again and again for {NUMBERS[days]} days.",
        f"At last {name} could {skill}.",
        f"{friend} clapped, and {name} felt {random.choice(FEELINGS)}.",
    ], [
        (f"What did {name} learn?", f"{name} learned to {skill}."),
        (f"Who taught {name}?", f"{friend} taught {name}."),
        ("How many days did it take?", f"It took {NUMBERS[days]} days."),
        ("Where did they meet?", f"They met at {place}."),
    ]


def gift(random: Random) -> Story:
    name, friend = two_names(random)
    third = random.choice([one for one in NAMES if one not in (name, friend)])
    colour, thing, place = random.choice(COLOURS), random.choice(THINGS), random.choice(PLACES)
    return [
        f"{name} made {a(f'{colour} {thing}')} for {friend}.",
        f"{random.choice(WEATHER)} {name} put the {thing} in a box and carried it to {place}.",
        f"There {name} met {third}.",
        f'"What is in the box?" asked {third}. "It is a surprise for {friend}," said {name}.',
        f"When {friend} opened the box, the {colour} {thing} was inside.",
        random.choice([f'"How lovely!" said {friend}.', f"{friend} laughed and thanked {name}."]),
    ], [
        (f"Who made the {thing}?", f"{name} made the {thing}."),
        (f"Who was the {thing} for?", f"The {thing} was for {friend}."),
        (f"Who did {name} meet?", f"{name} met {third}."),
        (f"What colour was the {thing}?", f"The {thing} was {colour}."),
    ]


def night(random: Random) -> Story:
    name, animal = random.choice(NAMES), random.choice(ANIMALS)
    called, thing = random.choice(PETS), random.choice(THINGS)
    return [
        f"At night {name} heard a sound outside.",
        random.choice(["It was dark, and the wind blew.", "The moon was high.", "Everyone else was asleep."]),
        f"{name} took a lamp and opened the door.",
        f"There stood {called} the {animal} with {a(thing)}.",
        f'"Why are you here, {called}?" asked {name}. "I could not sleep," said {called}.',
        f"So {name} told {called} a story, and soon they were both asleep.",
    ], [
        ("Who stood at the door?", f"{called} the {animal} stood at the door."),
        (f"What did {called} bring?", f"{called} brought {a(thing)}."),
        ("Who told a story?", f"{name} told a story."),
    ]


def journey(random: Random) -> Story:
    name, friend = two_names(random)
    first, second, third = random.sample(PLACES, 3)
    food = random.choice(FOODS)
    return [
        f"{name} and {friend} went on a walk. {random.choice(WEATHER)}",
        f"First they came to {first}. There they saw {a(random.choice(ANIMALS))}.",
        f"Then they went on to {second}, where they ate {several(random.randint(1, 5), food)}.",
        f"In the end they reached {third}.",
        random.choice(
            [f'"This is the best day," said {friend}.', f"{name} was {random.choice(FEELINGS)}, and {friend} was too."]
        ),
        "Then they walked home.",
    ], [
        ("Where did they go first?", f"First they went to {first}."),
        ("Where did they eat?", f"They ate at {second}."),
        ("Where did they go last?", f"Last they went to {third}."),
        (f"Who went with {name}?", f"{friend} went with {name}."),
    ]


PLOTS: tuple[Callable[[Random], Story], ...] = (lost, pet, counting, learning, gift, night, journey)
