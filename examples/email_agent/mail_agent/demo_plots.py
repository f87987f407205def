"""The threads of the demo mail: who writes to whom about what, and how it is put."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One message of a thread: from one role to others, put in one of several ways."""

    sender: str
    to: tuple[str, ...]
    bodies: tuple[str, ...]
    told: bool = False
    """Whether it is the one that tells what can be asked."""
    share: float = 1.0
    """How often it is written at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A kind of thread."""

    subjects: tuple[str, ...]
    parts: tuple[Part, ...]
    inbox: str
    """The role that can ask about it."""
    facts: tuple[str, ...]
    """The values that can be asked for."""


PLOTS = {
    "quote": Plot(
        subjects=("Inquiry about {thing}", "{thing}", "Wanted: {count} {thing}"),
        inbox="asker",
        facts=("amount",),
        parts=(
            Part(
                sender="asker",
                to=("seller",),
                bodies=(
                    "we need {count} {thing} this quarter and have set aside {decoy} EUR. What would {supplier} ask for them?",
                    "could {supplier} make us an offer for {count} {thing}? Last time we paid {decoy} EUR elsewhere.",
                    "our workshop is short of {thing}. We would take {count} if they cost less than {decoy} EUR.",
                ),
            ),
            Part(
                sender="seller",
                to=("asker",),
                told=True,
                bodies=(
                    "thank you for asking. For {count} {thing} we ask {amount} EUR, carriage included.",
                    "we have the {thing} in store. All {count} of them come to {amount} EUR.",
                    "with pleasure: {count} {thing} for {amount} EUR, payable within a month.",
                ),
            ),
            Part(
                sender="asker",
                to=("colleague",),
                share=0.7,
                bodies=(
                    "{supplier} has answered about the {thing}. A little steep, I find. Shall we ask someone else?",
                    "here is what {supplier} says about the {thing}. Can your budget carry it?",
                ),
            ),
        ),
    ),
    "review": Plot(
        subjects=("{month} review of {project}", "{project}: review in {month}"),
        inbox="member",
        facts=("room", "day"),
        parts=(
            Part(
                sender="lead",
                to=("member", "guest"),
                told=True,
                bodies=(
                    "the {month} review of {project} is on {day} in room {room}. Bring your open points.",
                    "we meet on {day} for the {month} review of {project}. I have booked room {room}.",
                    "room {room} is ours on {day}: that is the {month} review of {project}. Slides to me, please.",
                ),
            ),
            Part(
                sender="member",
                to=("lead", "guest"),
                bodies=(
                    "I may come a little late to the {month} review of {project}. Please begin without me.",
                    "I will show the new drawings at the {month} review of {project}.",
                ),
            ),
            Part(
                sender="guest",
                to=("lead", "member"),
                share=0.5,
                bodies=(
                    "do you want my figures for {project} before the {month} review or at the table?",
                    "I cannot join the {month} review of {project}. Send me the minutes, please.",
                ),
            ),
        ),
    ),
    "choice": Plot(
        subjects=("{part} for {project}", "{project}: which {part}?"),
        inbox="member",
        facts=("option",),
        parts=(
            Part(
                sender="member",
                to=("lead", "guest"),
                bodies=(
                    "two candidates are left for the {part} of {project}: the {option} and the {decoy}.",
                    "I have tried the {decoy} and the {option} as {part} for {project}. Either would do.",
                ),
            ),
            Part(
                sender="guest",
                to=("lead", "member"),
                bodies=(
                    "I lean to the {decoy} as {part} for {project}, it is in store already.",
                    "for the {part} of {project} the {decoy} looks sound to me. You decide.",
                ),
            ),
            Part(
                sender="lead",
                to=("member", "guest"),
                told=True,
                bodies=(
                    "thank you both. We take the {option} as {part} for {project}. Please order samples.",
                    "decided: we take the {option}. That settles the {part} of {project}.",
                    "after a night's sleep: for the {part} of {project} we take the {option}.",
                ),
            ),
        ),
    ),
    "deadline": Plot(
        subjects=("{document}", "{document} for {client}", "Request: {document}"),
        inbox="asker",
        facts=("due",),
        parts=(
            Part(
                sender="client",
                to=("asker",),
                told=True,
                bodies=(
                    "our auditors are coming. Please let us have the {document} by {due}.",
                    "we need the {document} by {due} at the latest. A draft is no use to us.",
                    "{client} cannot go on without the {document}. It has to be here by {due}.",
                ),
            ),
            Part(
                sender="asker",
                to=("client",),
                bodies=(
                    "the {document} will be with you in time.",
                    "noted. You will have the {document} as you wish.",
                ),
            ),
            Part(
                sender="asker",
                to=("colleague",),
                bodies=(
                    "{client} wants the {document}. Could I have your pages by {decoy}?",
                    "please begin with the {document} for {client}. I would like to see it by {decoy}.",
                ),
            ),
        ),
    ),
    "trip": Plot(
        subjects=("Trip to {city}", "{city} in {month}"),
        inbox="asker",
        facts=("hotel", "code"),
        parts=(
            Part(
                sender="asker",
                to=("travel",),
                bodies=(
                    "I have to be in {city} for two nights in {month}. Somewhere near the station, please.",
                    "a customer in {city} wants to see me in {month}. Could you book a bed for me?",
                ),
            ),
            Part(
                sender="travel",
                to=("asker",),
                told=True,
                bodies=(
                    "{city} in {month} is settled: you sleep at {hotel}, booking code {code}.",
                    "your bed in {city} for {month} is at {hotel}. Show them the booking code {code}.",
                    "booking code {code} is for {city} in {month}. The place is called {hotel}.",
                ),
            ),
        ),
    ),
    "contact": Plot(
        subjects=("{topic}", "Whom to ask about {topic}", "Change at {company}"),
        inbox="asker",
        facts=("name",),
        parts=(
            Part(
                sender="partner",
                to=("asker",),
                told=True,
                bodies=(
                    "from now on {name} looks after {topic} at {company}. Please change your lists.",
                    "{old} has left us. It is {name} who looks after {topic} now.",
                    "a word on {topic}: {name} looks after them since Monday.",
                ),
            ),
            Part(
                sender="asker",
                to=("partner",),
                bodies=(
                    "good to know whom to ask about {topic}.",
                    "thank you. I have passed it on to those who deal with {topic} here.",
                ),
            ),
        ),
    ),
    "parcel": Plot(
        subjects=("{thing} to {city}", "Parcel for {city}"),
        inbox="asker",
        facts=("tracking",),
        parts=(
            Part(
                sender="asker",
                to=("shipping",),
                bodies=(
                    "our people in {city} wait for {count} {thing}. Please send them, and tell me the tracking number.",
                    "could you send {count} {thing} to {city}? I need the tracking number for the file.",
                ),
            ),
            Part(
                sender="shipping",
                to=("asker",),
                told=True,
                bodies=(
                    "the {thing} for {city} left the house today. Tracking number: {tracking}.",
                    "done. The {thing} travel to {city} under tracking number {tracking}.",
                    "tracking number {tracking} belongs to the {thing} for {city}.",
                ),
            ),
            Part(
                sender="asker",
                to=("colleague",),
                share=0.5,
                bodies=(
                    "the {thing} are on their way to {city}. I have the tracking number if they ask.",
                    "{city} will get its {thing} this week. Ask me for the tracking number.",
                ),
            ),
        ),
    ),
    "invoice": Plot(
        subjects=("Your {month} invoice", "{month} invoice", "Invoice for {month}"),
        inbox="asker",
        facts=("number",),
        parts=(
            Part(
                sender="seller",
                to=("asker",),
                told=True,
                bodies=(
                    "enclosed is invoice {number} over {decoy} EUR. Please pay within a fortnight.",
                    "for what we sent you last, here is invoice {number}. The sum is {decoy} EUR.",
                    "we allow ourselves to send you invoice {number}, {decoy} EUR, due in thirty days.",
                ),
            ),
        ),
    ),
}
"""What people write about; most of it is never asked for."""
