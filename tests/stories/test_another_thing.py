"""Questions about a thing that a number, a name or a word such as "left" tells from others of its kind."""

from __future__ import annotations

import pytest

import salience

OTHERS = ("The office closes at six", "Mira is allergic to walnuts", "My passport is in the desk", "Rex is the dog")
SIBLINGS = [
    ("PR 89 is blocked by CI", "PR 88 was merged", "Was PR 89 merged?"),
    ("The invoice 1044 is still open", "The invoice 1043 was paid on 3 May", "Is invoice 1044 paid?"),
    ("Room 14 has a leak in the ceiling", "Room 12 is free on Friday", "Is room 14 free?"),
    ("db-04 is down since noon", "db-03 replicates to the backup", "Does db-04 replicate?"),
    ("Version 2.2 is planned for June", "Version 2.1 was released in March", "When was version 2.2 released?"),
    ("Flight BA117 leaves from gate 9", "Flight BA112 was delayed by an hour", "Is flight BA117 delayed?"),
    ("Apartment 4B got new windows", "Apartment 3B has a balcony", "Does apartment 4B have a balcony?"),
    ("Issue #77 is about fonts", "Issue #76 was fixed by Tom", "Who fixed issue #77?"),
]
RIVALS = [
    ("Alice leads team blue", "Bob leads team red", "Who leads team blue?"),
    ("The wifi key at home is nest42", "The wifi key at the office is nord7", "What is the wifi key at home?"),
    ("Dr. Adams treats my left knee", "Dr. Wu treats my right knee", "Which doctor treats my left knee?"),
    ("The budget for 2025 is 50,000", "The budget for 2024 was 40,000 euros", "What is the budget for 2025?"),
    ("The rent for May is 900", "The rent for June is 950", "What is the rent for May?"),
    ("The standup on Monday is at nine", "The standup on Tuesday is at ten", "When is the standup on Monday?"),
    ("My brother lives in Porto", "My sister lives in Graz", "Where does my brother live?"),
    ("The first draft is in the red folder", "The second draft is in my bag", "Where is the first draft?"),
    ("The north gate has a keypad", "The south gate closes at eight", "When does the north gate close?"),
    ("The eu cluster runs version 4", "The us cluster runs version 5", "Which version does the eu cluster run?"),
    ("The staging database is on db-07", "The production database is on db-03", "Where is the staging database?"),
    ("The upstairs bath has a leak", "The downstairs bath was painted white", "Was the upstairs bath painted?"),
    ("The morning pills are for blood", "The evening pills are for cholesterol", "What are the morning pills for?"),
    ("Das WLAN zu Hause heißt Nest", "Das Büro-WLAN heißt Nord", "Wie heißt das WLAN zu Hause?"),
    ("El coche azul es de Ana", "El coche rojo es de Tomás", "¿De quién es el coche azul?"),
    ("Dr Petit soigne mon genou gauche", "Dr Roy soigne mon genou droit", "Qui soigne mon genou gauche ?"),
]
OWNERS = [
    ("My birthday is 12 October", "My sister's birthday is 3 May", "When is my birthday?"),
    ("I live in Lisbon", "My mother lives in Porto", "Where do I live?"),
    ("I am afraid of spiders", "My wife is afraid of heights", "What am I afraid of?"),
    ("My desk is on the ground floor", "My boss's desk is on the third floor", "On which floor is my desk?"),
    ("Our dog is called Luna", "My brother's dog is called Otto", "What is my dog called?"),
    ("We have a grey car", "My neighbour's car is a red Fiat", "What car do I have?"),
    ("My favourite colour is blue", "My husband's favourite colour is green", "What is my favourite colour?"),
    ("I work at Bosch", "My friend Tom works at Siemens", "Where do I work?"),
    ("I play the violin", "My brother Otto plays the cello", "Which instrument do I play?"),
    ("The user's phone number is 5559876", "The user's wife's phone number is 5551234", "What is my phone number?"),
    ("Mein Geburtstag ist im Mai", "Der Geburtstag meines Bruders ist im Juni", "Wann ist mein Geburtstag?"),
    ("Mi perro se llama Luna", "El perro de mi hermano se llama Otto", "¿Cómo se llama mi perro?"),
]
NAMES = [
    ("Alice likes tea very much", "Does Bob like tea?"),
    ("Dora flies to Oslo often", "Does Carl fly to Oslo?"),
]
ANSWERS = [
    ("Room 12 and room 14 are free on Friday", "Is room 14 free?"),
    ("PR 90 reverts PR 89", "Was PR 89 reverted?"),
    ("Chapter seven is finished", "Is chapter 7 finished?"),
    ("The API limit is 900 requests a minute", "Is the API limit 500?"),
    ("I weigh 72 kg", "Do I weigh more than 70 kg?"),
    ("The train leaves at 9:40 from platform 3", "Which platform does the 9:40 train leave from?"),
    ("Bob likes tea and Alice likes coffee", "Does Bob like tea?"),
    ("The car is blue", "Is the car red?"),
    ("The car is blue", "Which colour is the car?"),
    ("The meeting is in the evening", "Is the meeting in the morning?"),
    ("Turn right at the church", "Should I turn left?"),
    ("The car keys are in the left drawer", "Are the car keys in the right drawer?"),
    ("The door code is 4711", "What is the entry code?"),
    ("My left knee hurts more than the right one", "Does my right knee hurt?"),
    ("The red and the blue team share a coach, Ann", "Who coaches the blue team?"),
    ("My knees both hurt", "Does my left knee hurt?"),
    ("My mum lives in Porto", "Where does my mother live?"),
    ("My siblings live in Graz", "Where does my brother live?"),
    ("I am at the office from Monday to Friday", "Am I at the office on Wednesday?"),
    ("I take the iron pills every day and the zinc pills on Friday", "Which pills do I take on Monday?"),
    ("We water the plants on weekdays, the cactus on Sunday", "Who waters the plants on Wednesday?"),
    ("The meeting moved from Monday to Tuesday", "When is the meeting?"),
    ("The Friday demo was moved to Thursday", "When is the Friday demo?"),
    ("I swim on Tuesdays", "Do I swim on Mondays?"),
    ("The party is on 9 May", "When in May is the party?"),
    ("I moved to Berlin in 2019", "When did I move to Berlin, in 2020?"),
    ("The roadmap for next year has 12 items", "What is on the 2025 roadmap?"),
    ("Tom left the company in May", "When did Tom leave the company?"),
    ("I can't do it right now, I write the report tomorrow", "When do I write the report?"),
    ("The budget is right on target: 5,000 remain", "How much budget is left?"),
    ("We use Red Hat on the servers", "Which system do the servers use?"),
    ("I met Ann at my second job in Oslo", "When did I first meet Ann?"),
    ("First of all, turn off the gas", "What do I turn off?"),
    ("She ordered the red curtains", "What did Mrs Green order?"),
    ("The dog is called Luna", "What is my dog called?"),
    ("My dog is called Luna, after my grandfather's dog", "What is my dog called?"),
    ("My birthday is the day after my sister's, 4 May", "When is my birthday?"),
    ("My wife and I married on 7 June 2014", "When did I marry?"),
    ("My brother's dog Otto bit me", "Which dog bit me?"),
    ("My brother's dog is called Otto", "What is my brother's dog called?"),
    ("My wife booked the hotel Aurora in Rome", "Which hotel do we have in Rome?"),
    ("My brother feeds the cat on Sundays", "Who feeds my cat on Sundays?"),
    ("Dinner with my wife is at eight", "When is my dinner?"),
    ("The passport is at my parents' house", "Where is my passport?"),
    ("My company's VAT number is DE123", "What is my VAT number?"),
    ("Das Auto ist blau", "Ist das Auto rot?"),
    ("El coche es azul", "¿Es rojo el coche?"),
]


def asked(question, *texts):
    with salience.connect(":memory:") as memory:
        for text in (*OTHERS, *texts):
            memory.remember(text, user_id="u")
        return memory.recall(question, user_id="u", limit=3)


@pytest.mark.parametrize(("right", "other", "question"), SIBLINGS + RIVALS + OWNERS)
@pytest.mark.parametrize("newest_first", [False, True])
def test_the_thing_that_the_question_names_comes_first(right, other, question, newest_first):
    found = asked(question, *((other, right) if newest_first else (right, other)))
    assert found[0].memory.content == right


@pytest.mark.parametrize(
    ("other", "question"), [*((other, question) for _, other, question in SIBLINGS + RIVALS + OWNERS), *NAMES]
)
def test_another_thing_is_no_sure_answer(other, question):
    assert asked(question, other).verdict != "answers"


@pytest.mark.parametrize(("text", "question"), ANSWERS)
def test_a_memory_of_the_thing_answers(text, question):
    found = asked(question, text)
    assert (found[0].memory.content, found.verdict) == (text, "answers")


def test_the_score_says_so():
    found = asked("Was PR 89 merged?", "PR 88 was merged")
    detail = found[0].score_detail
    assert detail.same_thing == 0.5
    assert found[0].score == pytest.approx(detail.recompute(), abs=1e-9)
