"""Forty and more replies that judges give about two attempts: those whose meaning is clear in spite of their form, and those of no clear meaning."""

from __future__ import annotations

GOOD = '{"scores": [{"trajectory_id": "A", "explanation": "x", "score": 0.9}, {"trajectory_id": "B", "score": 0.1}]}'
A9 = '{"trajectory_id": "A", "score": 0.9}'
B1 = '{"trajectory_id": "B", "score": 0.1}'

MEANT = [
    GOOD,
    f"  \n{GOOD}\n",
    f"```json\n{GOOD}\n```",
    f"```\n{GOOD}\n```",
    f"~~~json\n{GOOD}\n~~~",
    f"Here are the scores:\n\n{GOOD}\n\nI hope that helps!",
    f"<think>B looks good, {{but}} no.</think>{GOOD}",
    f"<thinking>\nscores: [0.5, 0.5]\n</thinking>\n```json\n{GOOD}\n```",
    f"<reasoning>a</reasoning><think>b</think> {GOOD}",
    f"{GOOD}<think>was that right?",
    '{"scores": [{"trajectory_id": "A", "score": 0.9}, {"trajectory_id": "B", "score": 0.1},]}',
    '{"scores": [{"trajectory_id": "A", "score": 0.9,}, {"trajectory_id": "B", "score": 0.1,}],}',
    "{'scores': [{'trajectory_id': 'A', 'score': 0.9}, {'trajectory_id': 'B', 'score': 0.1}]}",
    '{scores: [{trajectory_id: "A", score: 0.9}, {trajectory_id: "B", score: 0.1}]}',
    '{"scores": [{"trajectory_id": "A", "score": 0.9} {"trajectory_id": "B", "score": 0.1}]}',
    '{"scores": [{"trajectory_id": "A", "score": 0.9}, // best\n{"trajectory_id": "B", "score": 0.1}]}',
    '{"scores": [{"trajectory_id": "A", "score": "0.9"}, {"trajectory_id": "B", "score": " 0.1 "}]}',
    '{"scores": [{"id": "A", "score": 0.9}, {"trajectory": "B", "score": 0.1}]}',
    '{"scores": [{"trajectory_id": " A ", "score": 0.9}, {"trajectory_id": "B", "score": 1e-1}]}',
    f'{{"scores": [{B1}, {A9}]}}',
    f"[{A9}, {B1}]",
    '{"scores": {"A": 0.9, "B": 0.1}}',
    '{"A": 0.9, "B": 0.1}',
    '{"A": {"score": 0.9, "explanation": "x"}, "B": {"score": 0.1}}',
    '{"verdict": "A", "scores": [{"trajectory_id": "A", "score": 0.9, "sure": true}, {"trajectory_id": "B", "score": 0.1}]}',
    '{"scores": [{"trajectory_id": "A", "explanation": "it said \\"{[\\"", "score": 0.9}, {"trajectory_id": "B", "score": 0.1}]}',
    f'{{"scores": [{A9}]}} No, wait. {GOOD}',
]
"""Each says 0.9 for A and 0.1 for B."""

UNCLEAR = [
    ("", "the reply is empty"),
    ("   \n", "the reply is empty"),
    ("<think>Only thought.</think>", "the reply is empty"),
    ("<think>A is better than", "ends while it is still thinking"),
    ("A is better than B.", "holds no JSON that can be read: A is better than B."),
    ("I cannot judge this.", "holds no JSON"),
    ('{"scores": []}', "no score for A, B"),
    ("{}", "no score for A, B"),
    ("[]", "no score for A, B"),
    (f'{{"scores": [{A9}]}}', "no score for B; every one of A, B needs one"),
    (f'{{"scores": [{A9}, {B1}, {A9}]}}', "attempt 'A' is scored twice"),
    ('{"scores": [{"trajectory_id": "C", "score": 1}]}', "there is no attempt 'C'; the ids are A, B"),
    ('{"scores": [{"trajectory_id": "a", "score": 1}]}', "there is no attempt 'a'"),
    ('{"scores": [{"trajectory_id": 1, "score": 1}]}', "there is no attempt '1'"),
    ('{"scores": [{"score": 1}, {"score": 0}]}', "an entry of scores has no trajectory_id"),
    ('{"scores": [{"trajectory_id": "A"}]}', "attempt 'A' has no score"),
    (
        '{"scores": [{"trajectory_id": "A", "score": null}]}',
        "the score of 'A' is null; it must be a number from 0 to 1",
    ),
    ('{"scores": [{"trajectory_id": "A", "score": true}]}', "the score of 'A' is true"),
    ('{"scores": [{"trajectory_id": "A", "score": "good"}]}', "the score of 'A' is good"),
    ('{"scores": [{"trajectory_id": "A", "score": "90 %"}]}', "the score of 'A' is 90 %"),
    ('{"scores": [{"trajectory_id": "A", "score": 9}]}', "the score of 'A' is 9"),
    ('{"scores": [{"trajectory_id": "A", "score": -0.1}]}', "the score of 'A' is -0.1"),
    ('{"scores": [{"trajectory_id": "A", "score": NaN}]}', "the score of 'A' is NaN"),
    ('{"scores": [{"trajectory_id": "A", "score": Infinity}]}', "the score of 'A' is NaN"),
    ('{"scores": [{"trajectory_id": "A", "score": [0.9]}]}', r"the score of 'A' is \[0.9\]"),
    ('{"scores": [0.9, 0.1]}', "an entry of scores is 0.9, not an object"),
    ('{"scores": "0.9 and 0.1"}', "scores is 0.9 and 0.1, not a list"),
    (GOOD[:-40], "no score for B"),
    (GOOD[:50], "holds no JSON"),
]
"""Each with what the judge is told."""
