"""The scripts of the stories: every topic's slots and events, as data.

Nothing else decides what a story says, so the chance of any word, given the others, can be
computed from this file (`engine.py` says how a choice is read).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toybert.train.corpora.engine import By, Choice


@dataclass(frozen=True)
class Script:
    """A topic, the slots that make its documents differ, and its events in order."""

    name: str
    slots: Mapping[str, Choice]
    events: Sequence[Choice]


SCRIPTS = (
    Script(
        "baking",
        slots={
            "food": ["bread", "cake", "pie"],
            "some": By("food", {"bread": "bread", "cake": "a cake", "pie": "an apple pie"}),
            "need": By(
                "food",
                {"bread": ["flour", "salt"], "cake": ["sugar", "eggs"], "pie": ["apples", "flour"]},
            ),
            "luck": {"fine": 3, "burnt": 2},
        },
        events=[
            [
                "{A} wanted to bake {some} for {B}.",
                "{B} wanted {some}, so {A} began to bake {in the kitchen|at once|early}.",
                "On {Sunday|Friday} {A} and {B} wanted to bake {some}.",
            ],
            [
                "There was {butter|milk} in the kitchen, but {A} got the {need} from {the shop|{B}}.",
                "{A?} had no {need}, so {A.he} {ran|went} to the {shop|market}.",
                "{A?} got the {need} and the {butter|milk} from {the kitchen|the shop|{B}}.",
            ],
            [
                "{A?} mixed {it all|the {need}} with {butter|milk} in a {big|white|yellow} bowl.",
                "{A?} mixed the {need} with {milk|butter}, and {B} {washed the bowl|sang}.",
            ],
            [
                "Then {A.he} put the {food} into the hot oven{| and sat down| and closed it}.",
                "The oven was {hot|very hot}, so {A} put the {food} in.",
            ],
            By(
                "luck",
                {
                    "fine": [
                        "Soon the {whole |}{kitchen|house} smelled {lovely|wonderful|very good}.",
                        "When the top was brown, {A} took {it|the {food}} out{| of the oven}.",
                    ],
                    "burnt": [
                        "{A?} sat down with {a book|{B}|the cat} and forgot {the time|the oven}.",
                        "Then {A} fell asleep {in the garden|with a book|by the fire}.",
                    ],
                },
            ),
            By(
                "luck",
                {
                    "fine": [
                        "{B?} ate {two|three} {big |}pieces and {asked for|wanted} more.",
                        "{B} said that the {food} was {really tasty|very tasty|wonderful|great}.",
                    ],
                    "burnt": [
                        "Black smoke came out of the oven{| and the window}, and {A} {cried|ran}.",
                        "The {food} was {black|black and hard} when {A} {took it out|opened the oven}.",
                    ],
                },
            ),
            By(
                "luck",
                {
                    "fine": [
                        "In the {morning|evening} {there was nothing left of it|{B} ate it all}.",
                        "The baker {tasted it|ate some} and {smiled at {A}|asked {A} for more}.",
                        "",
                    ],
                    "burnt": [
                        "{B?} ate a little and said that it was {not too bad|not so bad|awful}.",
                        "It tasted {awful|horrible|terrible}, and {nobody|not the dog} ate it.",
                    ],
                },
            ),
            By(
                "luck",
                {
                    "fine": ["", "{A?} was {very |so |}happy and baked one more{| for {B}}."],
                    "burnt": [
                        "Then {B} laughed and {bought|got} {some|a new one} from the baker.",
                        "So {A} and {B} went to the baker, who baked the best {food}.",
                    ],
                },
            ),
        ],
    ),
    Script(
        "fishing",
        slots={"catch": ["fish", "shoe", "swim"], "seat": ["on the bank", "in a small boat"]},
        events=[
            [
                "{A} sat {seat} by the river to fish.",
                "{A} went to the river to fish before the sun rose.",
                "{A} and {B} rose {early|at six} and went to the river to fish.",
            ],
            [
                "The water was {cold|dark} and still, and a bird sang {in a tree|on the bank}.",
                "{B} sat {by|next to} {A.him} and ate {bread and cheese|an apple}.",
                "An old fisherman sat on the other bank and {slept|sang a song|ate a pie}.",
            ],
            [
                "For {two|three} hours {A} {caught nothing|waited, but no fish came}.",
                "Although {A} waited all {morning|day}, {no fish came|the fish were asleep}.",
                "The old fisherman caught {three|six|ten} fish, but {A} caught nothing.",
            ],
            [
                "Then {something heavy|something} pulled {on|at} the line, and {A} {cried|pulled too}.",
                "Then the line moved, and {A} {pulled hard|called {B}|held on}.",
            ],
            By(
                "catch",
                {
                    "fish": [
                        "Up came a {big|heavy|beautiful} fish, and it was {very|so|really} angry.",
                        "{A?} had a fish as {long|heavy|big} as {{A.his} arm|a cat}.",
                    ],
                    "shoe": [
                        "It was not a fish, it was {an old shoe|the shoe of the fisherman}.",
                        "Up came a {wet|black|brown} old shoe, full of {water|sand|leaves}.",
                    ],
                    "swim": [
                        "{A?} lost {A.his} {hat|shoe|bag} and fell into the {cold |}{water|river}.",
                        "It was too {strong|heavy}, and {A} fell into the {cold |}{water|river}.",
                    ],
                },
            ),
            By(
                "catch",
                {
                    "fish": [
                        "{B} cooked it over a fire with {a little|some} {lemon|butter|salt}.",
                        "They {made a fire and |}cooked it on the bank for {dinner|the fisherman}.",
                    ],
                    "shoe": [
                        "{B} laughed and asked {{A}|the fisherman} about the other one.",
                        "{A?} {looked at|washed} it, and {B} {laughed|smiled}.",
                    ],
                    "swim": [
                        "{B} pulled {A.him} out and gave {A.him} a {dry|warm|dry old} coat.",
                        "The fisherman {pulled|helped} {A.him} out, {cold and wet|wet and angry}.",
                    ],
                },
            ),
            By(
                "catch",
                {
                    "fish": [
                        "It tasted {wonderful|great}, and the {cat|dog} {of {B} |}got the head.",
                        "No fish was so tasty, said {B}.",
                    ],
                    "shoe": [
                        "So {A} and {B} had {eggs|soup|cheese} for dinner, not fish.",
                        "There was no fish for dinner, only {eggs|soup|bread and cheese}.",
                    ],
                    "swim": [
                        "At home {A} found a {small|little} fish in {A.his} {pocket|shoe|hat}.",
                        "There was a {small|little} fish in the pocket of {A.his} {wet |}coat.",
                    ],
                },
            ),
        ],
    ),
    Script(
        "lost key",
        slots={
            "door": ["house", "shop", "garden", "car"],
            "found": ["shoe", "pocket", "dog", "snow"],
        },
        events=[
            [
                "{A} came home {late|in the rain|tired} and could not open the door.",
                "{A} stood at the door of the {door} without a key.",
                "{A} wanted to open the door of the {door}{| for {B}}.",
            ],
            [
                "The key was not in {A.his} {bag|coat|hat}.",
                "{A?} looked in {A.his} {bag|coat|hat}, but the key was {gone|not there}.",
                "{A?} had lost the key, and {the door|every window} was closed.",
            ],
            [
                "{A?} looked under the {tree|ladder|flowers} and behind the {wall|box|car}.",
                "{B} came {by |}and helped {A.him} to look for {it|the key}.",
                "{A?} called {B}, who came with {a lamp|a light|the dog}.",
            ],
            [
                "They looked {for an hour|until {dark|six}}, but {A} {did not find it|found nothing}.",
                "{B} tried {the|a} window, but it was {closed|too high|too small}.",
                "It was {cold|dark|late}, and {A} was {sad|tired} {and hungry|and angry|and wet}.",
            ],
            By(
                "found",
                {
                    "shoe": [
                        "Then {A} felt something {hard|small|cold} in {A.his} {wet |}shoe.",
                        "Then {A.he} {took|pulled} off a shoe, because {it|{A.his} foot} hurt.",
                    ],
                    "pocket": [
                        "Then {B} put {a|one} hand into the pocket of {{A.his}|{B.his}} coat.",
                        "Then {B} {asked {A}|thought} about the pocket of {A.his} {old |}coat.",
                    ],
                    "dog": [
                        "Then {the|a} dog {of {B} |}came with something in its mouth.",
                        "Then {A} saw that the dog had something {bright|small} in its mouth.",
                    ],
                    "snow": [
                        "Then {B} saw something {small|bright|black} in the {white|cold} snow.",
                        "Something {bright|black} was in the {white|cold} snow by the {door|wall|tree}.",
                    ],
                },
            ),
            By(
                "found",
                {
                    "dog": [
                        "It was the {little |}key, and it was {very |}wet.",
                        "The {bad|silly|happy} dog had the key{| all the time}.",
                    ],
                    "*": [
                        "It was the {little |old |}key.",
                        "There it was, the {little|old} key of {A}.",
                    ],
                },
            ),
            [
                "{A?} turned the key, and the door {of the {door} |}opened.",
                "The key turned in the door, and {{B}|{A}|the cat} went in.",
            ],
            By(
                "found",
                {
                    "dog": [
                        "The dog wanted {some|a piece of} meat for its {good|hard} work.",
                        "{A?} gave the dog {some|a piece of} meat, and it {barked|ate it at once}.",
                    ],
                    "*": [
                        "{A?} laughed and made {hot |}{tea|soup} for {B}.",
                        "{A?} was so happy that {A.he} gave {B} some {cake|honey|apples}.",
                        "",
                    ],
                },
            ),
        ],
    ),
    Script(
        "rain",
        slots={
            "place": ["park", "market", "school", "river"],
            "left": ["coat", "hat", "umbrella"],
        },
        events=[
            [
                "{A} left {A.his} {left} at home because the sun was {warm|out}.",
                "The sun was {warm|hot}, so {A} went to the {place} without {A.his} {left}.",
                "{A} went to the {place} {with {B} |}on a {warm|lovely} {day|morning}.",
            ],
            [
                "On the way the sky turned {grey|black}{|, and a wind came| over {A}}.",
                "Then a {big |}{grey|black} cloud came over the {{place}|sun}.",
                "But soon there was a {big |}{grey|black} cloud over {the {place}|{A}}.",
            ],
            [
                "It began to rain{| hard} {when {A} was at|over|on} the {place}.",
                "Then the {cold |}rain came down on {A.him}{| and the {place}}.",
            ],
            [
                "Soon {A.his} {hair|face} and {A.his} {shoes|feet} were {very |}wet.",
                "{A?} ran {home|to a tree|like a horse}, but {A.he} was soon {very |}wet.",
                "{A?} stood under {a big|an old} tree and got wet all the same.",
            ],
            [
                "{B} saw {A.him} from the window and {opened the door|called {A.him}}.",
                "Then {B} came {by|down the street} with a {big|black|yellow} umbrella.",
            ],
            [
                "{B?} gave {A.him} hot {tea|soup|milk} and a dry {coat|hat}.",
                "{A?} sat by the {warm |}fire until {A.his} {shoes|feet} were {dry|warm}.",
            ],
            [
                "When the rain {was over|stopped}, the sun came out again{| over the {place}}.",
                "Then the rain stopped, and the {street|{place}} was {bright|still wet}.",
                "",
            ],
            [
                "{A} said that {the rain|bad weather} was {not so bad|lovely with {B}|not so awful}.",
                "{A?} went home and left {{A.his} wet shoes|a wet coat} {with {B}|by the fire}.",
                "{A} said that {B} was {very|really} {kind|good}{| to {A.him}}.",
            ],
        ],
    ),
    Script(
        "snow",
        slots={"head": ["hat", "bowl", "umbrella"], "end": ["bird", "sun"]},
        events=[
            [
                "In the night {it began to snow|snow fell on the {house|garden}}{| of {A}}.",
                "{A} looked out of the window on a {cold|winter} morning.",
                "It was winter, and {A} {woke up early|was cold in bed}.",
            ],
            [
                "In the morning {A} saw that the {whole |}{garden|street} was white.",
                "There was white snow on the {street|house|wall} and on {every|the old} tree.",
                "The snow was {white|cold and white} and {very |}soft.",
            ],
            [
                "{A} put on {A.his} warm {coat|hat|shoes} and called {B}.",
                "{A} and {B} ran out into the {cold|white} {garden|street|snow}.",
            ],
            [
                "They made a man of snow, as big as {{B}|{A}|a {horse|house}}.",
                "In the {garden|cold} {A} and {B} made a {big|funny|beautiful} man of snow.",
            ],
            [
                "{B} {gave him|found him} {an old|a {red|black|yellow}} {head} for a hat.",
                "{A} put {an old|a {red|black|yellow}} {head} on his white head.",
            ],
            [
                "Soon {A} had {cold|red} hands and {B} had {cold|wet} feet.",
                "Although it was cold, {A} and {B} played until {it was |}{dark|late}.",
                "{A} threw snow at {B}, and it {hit|fell on} {B.his} {hat|head|face}.",
            ],
            [
                "Then they went in and had {hot|sweet} {soup|tea|milk} by the fire.",
                "In the {warm |}kitchen {B} made hot {soup|tea|milk} for {A}.",
            ],
            By(
                "end",
                {
                    "bird": [
                        "In the morning a {little|black} bird sat on his {white head|{head}}.",
                        "A {small|little|black} bird slept in his {head} {that night|all winter}.",
                    ],
                    "sun": [
                        "Then the sun came, and {soon|in a day} only his {head} was left.",
                        "When the {warm |}sun came out, there was only water and the {head}.",
                    ],
                },
            ),
        ],
    ),
    Script(
        "ill at home",
        slots={
            "where": ["head", "stomach", "tooth"],
            "why": By(
                "where",
                {
                    "head": ["{A.he} did not sleep", "{A.he} fell from a tree"],
                    "stomach": ["{A.he} ate a whole cake", "{A.he} ate an old fish"],
                    "tooth": ["{A.he} ate too much sugar", "{A.he} never washed it"],
                },
            ),
        },
        events=[
            [
                "{A} was {ill|very ill} and had to be {in bed|at home} all {day|morning}.",
                "{A} woke up {early |}and felt {terrible|awful|really bad}.",
                "{A} did not go to {work|school} because {A.he} was {very |}ill.",
            ],
            [
                "{A.his} {where} hurt, and {A.his} face was {white|hot|red}.",
                "{A.his} {where} hurt so much that {A.he} could not {eat|sleep}.",
            ],
            [
                "{B} sat by {A.his} bed and {then |}{called|asked for} the doctor.",
                "{B} {saw|said} that {A} was {very |}ill and called the doctor.",
                "So {B} ran {through the {rain|snow|dark street}|out} for the doctor.",
            ],
            [
                "The {kind |old |}doctor came with a {black|big} bag and looked at {A.his} {where}.",
                "The doctor asked {A} {many|three|ten} questions about the {where}.",
            ],
            [
                "It hurt because {why}.",
                "{A} said that {why}, and the doctor {laughed|smiled|did not smile}.",
            ],
            [
                "{A?} got a medicine that tasted {awful|terrible|horrible|very bad}.",
                "The medicine was {black|brown} and {awful|horrible|terrible}, but {A} took it.",
            ],
            [
                "{B?} gave {A.him} {hot |}tea with {sweet |a little }honey.",
                "{B} made {hot |}tea with {sour |}lemon and honey for {A.him}.",
                "",
            ],
            [
                "In {two|three} days {A} {was|felt} well again{| and went out}.",
                "Soon {A} felt {well|good} again and wanted {cake|soup|bread and butter}.",
                "{A?} slept for {two|three} days and felt {well again|great}.",
            ],
        ],
    ),
    Script(
        "hospital",
        slots={
            "broke": ["leg", "arm", "foot"],
            "how": ["from a horse", "from a ladder", "from a bicycle", "from a tree"],
            "gift": ["roses", "a book", "a cake", "apples"],
        },
        events=[
            [
                "{A} fell {how} and broke {A.his} {broke}.",
                "{B} {heard|saw} that {A} fell {how}.",
                "On {Sunday|Friday} {A} fell {how}, and {A.his} {broke} hurt.",
            ],
            [
                "{A car|{B}|A bus driver} took {A.him} to the hospital{| at once}.",
                "{At|In} the hospital the {old |kind |}doctor said that the {broke} was broken.",
            ],
            [
                "The {kind |}nurse put {A.him} in a white bed by the {window|door|wall}.",
                "{A?} had to be in {bed|the hospital} for {two|three|six} weeks.",
                "The nurse was {kind|lovely|nice}, but the bed was {hard|awful|cold}.",
            ],
            [
                "It was {very|so|really} dull there, and the {soup|food} was {awful|terrible|cold}.",
                "The days were {long|dull|long and dull}, and {A} was {very |so |}sad.",
            ],
            [
                "Then {B} came {in |}with {gift} in {B.his} {hands|bag|hat}.",
                "{B} came to see {A.him} and {gave {A.him}|had} {gift}.",
            ],
            By(
                "gift",
                {
                    "roses": [
                        "They were {red|white|yellow}, and the {whole |}{room|hospital} smelled of them.",
                    ],
                    "a book": ["It was a {funny|lovely} story about a {cat|horse|bat} that could {read|sing}."],
                    "a cake": [
                        "The {doctor|nurse} ate {a piece|three pieces} and said that it was {good|great} medicine.",
                    ],
                    "apples": [
                        "They were {red|yellow} and sweet, from {the tree|the garden} of {{B}|{B.his} mother}.",
                    ],
                },
            ),
            [
                "{A} {laughed|sang} so {much|hard} that the {nurse|doctor} came in.",
                "{A} gave a little to {the nurse|the doctor|a child in the next bed}.",
                "All the ill people in the room {were happy|smiled} {too|with {A}}.",
            ],
            [
                "In {spring|summer} {A} could {walk|run} again without {help|{B}}.",
                "When the {broke} was {well|strong} again, {A} went home with {B}.",
            ],
        ],
    ),
    Script(
        "garden",
        slots={
            "plant": ["roses", "apples", "lemons", "flowers"],
            "put": By(
                "plant",
                {
                    "apples": "a {little |small |}tree",
                    "lemons": "a {little |small |}tree",
                    "*": "seeds",
                },
            ),
            "them": By("plant", {"apples": "it", "lemons": "it", "*": "them"}),
            "enemy": ["rabbit", "snow", "dog"],
        },
        events=[
            [
                "In spring {A} {worked|was} in the garden {every day|with {B}}.",
                "It was spring, and {A} wanted {plant} in {{A.his}|the} garden.",
                "{A} had a {small|beautiful|big} garden behind the {house|school|hospital}.",
            ],
            [
                "{A?} put {put} into the {wet |soft |}earth and gave it {some |}water.",
                "{B} gave {A.him} {put}, and {A.he} put {them} into the {wet |soft |}earth.",
            ],
            [
                "The sun was warm, and {soft|warm} rain fell {in the night|on the garden}.",
                "{A?} waited for {two|three} weeks, and the sun made the earth warm.",
                "",
            ],
            [
                "Soon {A} saw {two|three|many} {small|little} green leaves.",
                "Then the first green leaves came {up|out}.",
            ],
            By(
                "enemy",
                {
                    "rabbit": [
                        "But a {hungry|brown|grey} rabbit came {in the night|at night} and ate {some|two}.",
                        "But a {hungry|brown|grey} rabbit loved the {green |}leaves{| too}.",
                    ],
                    "snow": [
                        "But {late|cold|white} snow fell on the {green|little|small} leaves.",
                        "But {one night|on Sunday|on Friday} it was {very |}cold, and snow fell.",
                    ],
                    "dog": [
                        "But the dog {of {B} |}ran through the {garden|leaves} with its bone.",
                        "But a {big|silly|black} dog put {its|a} bone into the earth there.",
                    ],
                },
            ),
            By(
                "enemy",
                {
                    "rabbit": [
                        "{A?} was {very |}angry, but {B} gave it {some |}{bread|apples}.",
                        "So {B} made a {high|strong} wall of wood for the {garden|rabbit}.",
                    ],
                    "snow": [
                        "{A} put {A.his} {old|warm} coat over {them|the leaves}.",
                        "So {A} and {B} put {paper|an old coat|a box} over the leaves.",
                    ],
                    "dog": [
                        "So {A} gave it {a bone|some meat} behind the {old tree|house|wall}.",
                        "{A} called it a {bad|terrible|silly} dog, and it looked {very |so |}sad.",
                    ],
                },
            ),
            [
                "In {summer|autumn} the garden {of {A} |}was full of {plant}.",
                "That {summer|autumn} {A} had more {plant} than {{A.he}|{B}} could carry.",
            ],
            By(
                "plant",
                {
                    "roses": [
                        "{A?} gave the {first|best} {red|white} rose to {B}.",
                        "The roses {were red and |}smelled {lovely|wonderful|of summer}.",
                    ],
                    "apples": [
                        "{B} made {a sweet|a big|an apple} pie with them.",
                        "The apples were {red|yellow} and {very |so |}sweet.",
                    ],
                    "lemons": [
                        "They were {yellow and |}{very|really|so} sour.",
                        "{B} ate one, and {it was sour|{B.his} face was sour}.",
                    ],
                    "flowers": [
                        "The bees {came|loved them}, and {A} had {a lot of |sweet |}honey.",
                        "{B} said that they were {beautiful|lovely|great}.",
                    ],
                },
            ),
        ],
    ),
    Script(
        "market",
        slots={
            "buy": ["lemons", "honey", "cheese", "apples", "fish", "bread"],
            "seller": By("buy", {"fish": "fisherman", "bread": "baker", "*": ["farmer", "old woman"]}),
            "an": By("seller", {"old woman": "an", "*": "a"}),
            "kind": ["kind", "rude"],
        },
        events=[
            [
                "{A} went to the market to buy {buy}{| for {B}}.",
                "On {Friday|Sunday} {A} and {B} went to the market{| to buy {buy}}.",
                "{A} wanted {buy}{| for dinner}, so {A.he} went to the market.",
            ],
            [
                "It was {full of people|really loud}, and {everyone|{B}} was {in the way|hungry}.",
                "The market was {big|loud|bright} and full of {people|good food}.",
                "",
            ],
            By(
                "kind",
                {
                    "kind": [
                        "{an} {seller} {smiled and |}gave {A.him} some {buy}.",
                        "{an} {seller} with a kind face sold {buy}{| to {A}}.",
                    ],
                    "rude": [
                        "{an} {seller} sold {buy} and was {very |so |really }rude{| to {A}}.",
                        "The {seller} who sold {the |}{buy} was {very|so|really} rude.",
                    ],
                },
            ),
            By(
                "buy",
                {
                    "lemons": [
                        "They were {yellow|big} and so sour that {A} {cried|turned white}.",
                        "They were {yellow|big} and {very|so|really} sour.",
                    ],
                    "honey": [
                        "It was as sweet as {summer|sugar|a song}.",
                        "It was {yellow|brown} and {very|so|really} sweet{|, as honey is}.",
                    ],
                    "cheese": [
                        "It was {yellow|old} and smelled {like|of} {old |}{feet|shoes}.",
                        "It smelled {strong|awful}, but it {tasted {good|great}|was good}.",
                    ],
                    "apples": [
                        "They were {red|yellow} and {sweet|very sweet|hard}.",
                        "They were the best apples in the {whole |}market.",
                    ],
                    "bread": [
                        "It was {brown|white} and still warm from the oven.",
                        "It was {soft|warm} and smelled {good|lovely|wonderful}.",
                    ],
                    "fish": [
                        "It was {big|small} and fresh from the {sea|river}.",
                        "It was caught {that morning|in the {sea|river}|at six}.",
                    ],
                },
            ),
            By(
                "kind",
                {
                    "kind": [
                        "{A?} asked {about |}the price, and it was {very little|not much} money.",
                        "It cost {very little|not much} money, so {A} {smiled|was happy}.",
                    ],
                    "rude": [
                        "{A?} asked {about |}the price, and it was too much money.",
                        "It cost so much that {A} {was angry|cried}.",
                    ],
                },
            ),
            By(
                "kind",
                {
                    "kind": [
                        "{A?} paid and put the {buy} into {A.his} {big |}{bag|hat}.",
                        "So {A} bought {the|a lot of} {buy} and gave some to {B}.",
                    ],
                    "rude": [
                        "Then {B} said please, and the {seller} {smiled|was kind}.",
                        "{B} {smiled|sang a song}, and the {seller} {smiled|laughed} too.",
                    ],
                },
            ),
            By(
                "kind",
                {
                    "kind": [
                        "{The|{A.his}} bag was {very |}heavy, so {B} {carried it|helped {A.him}}.",
                        "",
                    ],
                    "rude": ["Then the price was {good|not so bad}, and {A} {paid|bought the {buy}}."],
                },
            ),
            By(
                "buy",
                {
                    "lemons": ["At home {{A}|{B}} made a {yellow |}{cake|soup} with {them|two lemons}."],
                    "honey": ["At home {A} ate it with {warm|fresh} {bread|cake}."],
                    "cheese": ["At home {a|the} {mouse|dog|cat} was the first to {eat|find} it."],
                    "apples": ["At home {{A}|{B}} baked {a|an apple} pie with {them|the apples}."],
                    "bread": ["At home {{A}|{B}} ate {it|the bread} with {butter|honey|cheese}."],
                    "fish": ["At home the {cat|white cat|black cat} {of {B} |}{purred|was very happy}."],
                },
            ),
        ],
    ),
    Script(
        "money",
        slots={
            "wish": ["bicycle", "horse", "drum", "boat"],
            "work": ["washed cars", "sold bread for the baker", "carried wood", "washed windows"],
            "colour": ["red", "white", "black"],
        },
        events=[
            [
                "{A} wanted a {colour} {wish}, but {A.he} had no money.",
                "Every day {A} looked at a {colour} {wish}{| in a shop}.",
                "{A} wanted to buy a {colour} {wish}{| like the one of {B}}.",
            ],
            [
                "The {wish} cost {a lot of|too much} money, and {A} had {nothing|very little}.",
                "The price of the {wish} was {very |too }high, and {A.his} {pocket|bag} was empty.",
            ],
            [
                "So {A} {work} for a {whole |long |}{summer|winter}.",
                "All {summer|winter} {A} {work} {for {B}|and was tired}.",
            ],
            [
                "{A?} put the money in the bank every {Friday|evening|day}.",
                "{B} told {A.him} to put {the|all the} money in the bank.",
            ],
            [
                "In the bank {a|an old} woman smiled and wrote it {down|in a {big|black} book}.",
                "The man at the bank {put it away|smiled at {A}|wrote it in a {big|black} book}.",
                "",
            ],
            [
                "In {spring|autumn} {A} had {the|all the} money for the {{colour} |}{wish}.",
                "{Soon|One day} the money was {there|in the bank}, and {A} {smiled|cried for joy}.",
            ],
            [
                "{A?} took the money {out|from the bank} and {ran to the shop|paid for it}.",
                "{A?} paid for the {wish}, and {A.his} hands were warm with joy.",
            ],
            By(
                "wish",
                {
                    "bicycle": [
                        "{A?} rode it down the {hill|street}, and {B} ran {behind|after {A.him}}.",
                        "{A} rode {home|to {B}} on it and rang the {little |loud |}bell.",
                    ],
                    "horse": [
                        "{A?} rode it {home|to {B}}, and it ate {all |}the {roses|apples}.",
                    ],
                    "drum": [
                        "{A?} played it all {night|day}, and {B} could not {sleep|read|work}.",
                    ],
                    "boat": [
                        "{A?} took it to the {river|sea}, and {B} {sat|fell asleep} in it.",
                    ],
                },
            ),
        ],
    ),
    Script(
        "noise at night",
        slots={"who": ["cat", "bat", "friend", "wind"], "room": ["kitchen", "garden"]},
        events=[
            [
                "{Late at|In the} night {A} woke up{| in the dark|, and it was dark}.",
                "It was {late|night}, and {A} was {asleep|in bed|not asleep}.",
                "{A} could not sleep because the night was so {dark|hot|cold}.",
            ],
            [
                "{A?} heard a {loud|small|funny} noise in the {dark |}{room}.",
                "Something {big|small} moved in the {dark |}{room}.",
                "{A} thought that the {baker|teacher|postman|doctor} was in the {room}.",
            ],
            [
                "The dog {of {A} |}began to bark{| at the {window|door}}.",
                "The dog {heard it and |}barked and ran {to|from} the door.",
            ],
            [
                "{A?} was {very |}afraid, but {A.he} took {a|the} {lamp|candle}.",
                "With a {lamp|candle} in {A.his} hand {A} went {down|to the {room}}.",
                "{A?} turned on the light and called {{B}|the dog}.",
            ],
            [
                "Slowly {A} opened the door {of|to} the {room}.",
                "The dog stood {behind|next to} {A.him} and did not {bark|move}.",
                "{A} called, and the dog {of {B} |}began to bark again.",
            ],
            By(
                "who",
                {
                    "cat": [
                        "It was only a {black|white|grey} cat with {a fish|meat} in its mouth.",
                        "There sat a {black|white|grey} cat that ate the {cheese|fish|butter}.",
                    ],
                    "bat": [
                        "It was only a {little|small} bat with {black|brown|soft} wings.",
                        "A {black|little} bat flew over {A.his} head{| and the {lamp|dog}}.",
                    ],
                    "friend": [
                        "It was only {B}, who {was hungry|wanted some {cheese|cake}}.",
                        "There {stood|sat} {B} with a {big|small} piece of {pie|cake|bread}.",
                    ],
                    "wind": [
                        "It was only the {cold|strong} wind in {an open|the} window.",
                        "Nobody was there, only the {cold|strong} wind{| and a window}.",
                    ],
                },
            ),
            By(
                "who",
                {
                    "cat": [
                        "It purred and was not afraid of {the dog|{A}|the light}.",
                        "The {big |silly |}dog was {very |}afraid of it and {ran|did not move}.",
                    ],
                    "bat": [
                        "It flew {away|out} into the {dark|night}, because a bat loves the {dark|night}.",
                        "The dog was {very |}afraid of the bat.",
                    ],
                    "friend": [
                        "{A} laughed, and {they ate it all|{B} gave {A.him} some}.",
                        "{B?} said sorry and gave the dog {some|a piece} too.",
                    ],
                    "wind": [
                        "{A?} closed {it|the window}, and all was {still|dark and still}.",
                        "{A} and {B} closed the {old |}window{| and laughed| and had tea}.",
                    ],
                },
            ),
            [
                "Then {A} slept {well |}until {morning|six|nine}.",
                "{A?} went back to {A.his} warm bed{|, and so did the dog}.",
                "",
            ],
        ],
    ),
    Script(
        "cat in the tree",
        slots={
            "colour": ["white", "black", "grey"],
            "why": ["bird", "dog"],
            "down": ["ladder", "fish", "rain"],
        },
        events=[
            [
                "{A} had a {small|big|beautiful} {colour} cat.",
                "The {colour} cat of {A} was in the garden{| of {B}}.",
                "{A} and {B} looked for the {colour} cat.",
            ],
            By(
                "why",
                {
                    "bird": [
                        "It saw a {little|yellow} bird and ran up {an|the} old tree.",
                        "It wanted {to eat |}a {little|yellow} bird in the {old|high} tree.",
                    ],
                    "dog": [
                        "A {big|bad|loud} dog barked, and the cat ran up a tree.",
                        "It {was|sat} up in a tree because the dog of {B} barked.",
                    ],
                },
            ),
            [
                "Its feet held on to the {hard|brown|old} bark of the tree.",
                "The bark was {hard|old|brown}, and the tree was {very |so |}high.",
                "High up in the {green |}leaves it {began to|could only} cry.",
            ],
            [
                "It {was afraid and |}could not come down again.",
                "{A} called it, but it was {too |very |}afraid to come down.",
            ],
            By(
                "down",
                {
                    "ladder": [
                        "{B} came with a {long|heavy|light} ladder.",
                        "{A} {called|ran to} {B}, who had a {long|heavy|light} ladder.",
                    ],
                    "fish": [
                        "{A} put a {piece of fish|fish|fresh fish} under the tree.",
                        "{B} cooked a {big|fresh|small} fish and put it under the tree.",
                    ],
                    "rain": [
                        "Nobody could help {A.him}, and then it began to rain{| hard}.",
                        "{A} waited for {an hour|three hours}, and then the rain came.",
                    ],
                },
            ),
            By(
                "down",
                {
                    "ladder": [
                        "{B?} went up, and the bark came off under {B.his} {shoes|feet|hands}.",
                        "{B?} went up and put the {{colour} |}cat into {B.his} {coat|hat|bag}.",
                    ],
                    "fish": [
                        "It smelled {good|lovely}, and the cat {was|came} down at once.",
                        "The {colour} cat came down the tree for its {dinner|fish}.",
                    ],
                    "rain": [
                        "The {wet|cold} {colour} cat came down at once and ran {home|to {A}}.",
                        "No cat loves {water|rain}, so it {came down|ran home} at once.",
                    ],
                },
            ),
            [
                "Soon it {slept|sat} by the {warm |}fire and purred.",
                "{A?} held it in {A.his} arms, and {it|the {colour} cat} purred.",
            ],
            By(
                "down",
                {
                    "ladder": ["Then {B} was {too |very |}afraid to come down.", ""],
                    "*": [
                        "",
                        "{A} said that it was a {bad|silly|good|lovely} cat.",
                        "In the evening {B} {saw|heard} it up in the tree again.",
                    ],
                },
            ),
        ],
    ),
    Script(
        "the bird",
        slots={
            "hurt": ["wing", "leg"],
            "eat": ["seeds", "bread"],
            "colour": ["yellow", "black", "brown"],
        },
        events=[
            [
                "{A} found a {little|small} {colour} bird in the {snow|garden|park}.",
                "A {little|small} {colour} bird fell {from a tree|down} in front of {A}.",
            ],
            [
                "Its {hurt} was broken, and it could not {fly|sing}.",
                "It could not fly because its {hurt} was {broken|bad}.",
            ],
            [
                "{A?} put it {into|in} a {small|warm|big} box with {soft|dry} leaves.",
                "{A?} took it home in {A.his} {hat|coat|hands|bag}.",
            ],
            [
                "{B} looked at the {hurt} like a {good|kind} {doctor|nurse}.",
                "{B} held it, and {A} put {a little |some }wood on its {hurt}.",
            ],
            [
                "It ate {eat} out of {A.his} {hand|hat}.",
                "All winter the cat {of {B} |}had to {be|sleep} in the {kitchen|garden}.",
                "The {hungry |}cat {of {B} |}looked at it all {day|winter}.",
            ],
            [
                "In spring {the {colour} bird|it} began to sing{| for {A}}.",
                "One morning in spring it sang for {the first time|{A}|an hour}.",
            ],
            [
                "{A?} opened the window, and the {{colour} |}bird flew {away|out}.",
                "Its wings were strong {again|now}, and it flew {out of the window|over {A}}.",
            ],
            [
                "Now it {sang|sat} in the {old |}tree {of {B} |}every morning.",
                "{A?} was {happy and sad|sad and happy} at once.",
                "{B} said that it would come back in {summer|autumn|winter}, and it was true.",
            ],
        ],
    ),
    Script(
        "school",
        slots={
            "task": ["read", "write", "sing"],
            "late": ["on time", "late"],
            "thing": ["dog", "cat", "horse"],
        },
        events=[
            By(
                "late",
                {
                    "on time": [
                        "{A} sat down in school, and the bell began to ring.",
                        "{A} was in school {before {B}|early|at six}.",
                    ],
                    "late": [
                        "{A} was late for school {again|on {Friday|a cold day}}.",
                        "{A} heard the school bell ring and {began to run|ran}.",
                    ],
                },
            ),
            By(
                "late",
                {
                    "on time": [
                        "The teacher came in {with a {book|box}|and smiled}.",
                        "{B} sat {next to|in front of|behind} {A.him}.",
                    ],
                    "late": [
                        "The teacher looked at {the|a} watch and was {very |}angry.",
                        "The {other |}children laughed when {A} came in.",
                    ],
                },
            ),
            By(
                "task",
                {
                    "read": [
                        "The teacher gave {A.him} a {long|hard} book and asked {A.him} to read.",
                        "{A?} had to read {two|three} pages about a {thing}.",
                    ],
                    "write": [
                        "The teacher asked {A.him} to write a {long |}letter{| about a {thing}}.",
                        "{A?} had to write a {long |}letter, but {A.he} had no {pen|paper}.",
                    ],
                    "sing": [
                        "The teacher asked {A.him} to sing a {new|long|hard} song.",
                        "{A?} had to sing a {song|long song} about a {thing}.",
                    ],
                },
            ),
            By(
                "task",
                {
                    "read": [
                        "The pages were {long|hard}, and {A} was {afraid|very afraid}.",
                        "{A?} {looked at|opened} the book and could not read it.",
                    ],
                    "write": [
                        "{B} gave {A.him} {a pen|some paper|a pen and some paper}.",
                        "{A?} looked at the {white|empty} paper and did not write.",
                    ],
                    "sing": [
                        "{A?} opened {A.his} mouth, but {nothing came out|it was {dry|empty}}.",
                        "{A?} forgot the song and {turned red|looked at {B}}.",
                    ],
                },
            ),
            [
                "{B} {helped {A.him}|smiled at {A.him}} a little.",
                "The teacher was {very |}kind and {waited|helped {A.him}}.",
                "",
            ],
            By(
                "task",
                {
                    "read": ["Then {A} read it {well|slowly|very well}, to the end."],
                    "write": ["Then {A} wrote {two|three|ten} pages about {A.his} {thing}."],
                    "sing": ["Then {A} {began again and |}sang it {well|very well} to the end."],
                },
            ),
            [
                "The teacher said that it was {wonderful|very good|not bad|great}.",
                "The teacher was {very|really} happy with {A}{| and told {B}}.",
            ],
            [
                "Then the bell rang, and {the children|{A} and {B}} ran out to play.",
                "When the bell began to ring, {A} and {B} ran {home|out}.",
            ],
        ],
    ),
    Script(
        "train",
        slots={
            "to": ["sea", "city", "mountain"],
            "hour": ["six", "nine", "ten"],
            "bag": ["light", "heavy"],
            "end": ["catch", "miss"],
        },
        events=[
            [
                "The train to the {to} leaves at {hour}, and {A} wanted to take it.",
                "{A} wanted to take the train that leaves at {hour}.",
                "{A} went on a {long|great} journey to the {to}.",
            ],
            By(
                "bag",
                {
                    "light": [
                        "{A.his} bag was {small|old} and {light|very light}.",
                        "{A?} had a {small |}light bag with {bread|apples} and a book.",
                    ],
                    "heavy": [
                        "{A.his} bag was so heavy that {B} {had to help|carried it}.",
                        "{A?} {carried|had} a {very |}heavy bag full of {shoes|books|cheese}.",
                    ],
                },
            ),
            By(
                "end",
                {
                    "catch": [
                        "At the station {A} looked at {A.his} watch, and it was {hour}.",
                        "{A?} {was at|came to} the station {before|at} {hour}.",
                    ],
                    "miss": [
                        "But {A.his} watch {had |}stopped, and {A.he} {came|was} too late.",
                        "At the station {A} {talked to|looked for} {{B}|a cat} and forgot the time.",
                    ],
                },
            ),
            By(
                "end",
                {
                    "catch": [
                        "{B} {stood|was} there and gave {A.him} a {little |big |}wave.",
                        "{B} {smiled|cried a little}, with a wave of {B.his} {hand|hat}.",
                    ],
                    "miss": [
                        "The train was gone, and {A} was {very |so |}{sad|angry}.",
                        "{A?} saw only the {black|grey|white} smoke of the train.",
                    ],
                },
            ),
            By(
                "end",
                {
                    "catch": [
                        "{A?} sat by the window and saw {a river|cows} and {a hill|an old farm}.",
                        "From the {train|window} {A} saw a farmer and {two|three|ten} cows.",
                    ],
                    "miss": [
                        "{A?} waited {two|three} hours for the {next one|next train}.",
                        "There was no other train {that day|until {morning|evening}}.",
                    ],
                },
            ),
            By(
                "end",
                {
                    "catch": [
                        "A {kind|funny|nice} woman gave {A.him} {cheese|an apple}, and they talked.",
                        "Then {A} {fell asleep|slept for {two|three} hours} with {A.his} {hat|book} on {A.his} face.",
                    ],
                    "miss": [
                        "Then {B} came {by|back} in {an old|a {red|new}} car.",
                        "So {A} called {B}, who had {an old|a {red|new}} car.",
                    ],
                },
            ),
            By(
                "end",
                {
                    "catch": By(
                        "to",
                        {
                            "sea": "Then {A} {heard|saw} the {waves|sea} and {was happy|smiled}.",
                            "city": "Then {A} saw {the city|the light of the city} and {was happy|smiled}.",
                            "mountain": "Then {A} saw {the |}snow on the mountain and {was happy|smiled}.",
                        },
                    ),
                    "miss": By(
                        "to",
                        {
                            "sea": "They {were at|came to} the {sea|beach} before the train.",
                            "city": "They {were in|came to} the city before the train.",
                            "mountain": "They {were at|came to} the mountain before the train.",
                        },
                    ),
                },
            ),
            ["", "{A} said that it was a {wonderful|lovely|good|terrible|great} journey."],
        ],
    ),
    Script(
        "birthday",
        slots={
            "gift": ["hat", "drum", "watch", "ball", "book"],
            "food": ["cake", "pie", "soup"],
            "guest": ["mother", "sister", "brother", "teacher"],
        },
        events=[
            [
                "It was the birthday of {A}, and {B} {baked a cake|made dinner}.",
                "On {Friday|Sunday} {A} had a big birthday party {at home|in the garden}.",
                "{A} woke up early because it was {A.his} birthday.",
            ],
            [
                "{A.his} {guest} came {on the bus|by train|in a big car}, and so did {B}.",
                "Everyone {came|wanted to come}, {B} and the {guest} of {A} too.",
                "{B} came to the party with {A.his} {guest}.",
            ],
            [
                "They {ate|had} {food} and sang a {funny|lovely|long} song.",
                "{B} and the {guest} sang, and it was {awful|terrible|not bad|lovely}.",
                "There was {food} for everyone, and the {guest} ate {too much|very little}.",
            ],
            [
                "Then {B} gave {A.him} a {big|small|heavy|light} box.",
                "{A} got a present from {B} in a {red|white|yellow} box.",
            ],
            [
                "{A?} opened it {slowly|at once}, and there was a {new|beautiful|red} {gift} in it.",
                "{A?} opened the box and found a {gift}.",
                "In the box was a {new|beautiful|red} {gift}, and {A} {laughed|smiled}.",
            ],
            By(
                "gift",
                {
                    "hat": [
                        "It was too big for {A.him}, so {B} gave it to the {dog|baby}.",
                        "{A?} put it on, and {B} could not see {A.his} face.",
                    ],
                    "drum": [
                        "{A?} played it until {the dog barked|everyone went home}.",
                        "It was so loud that {B} {was sorry|left the room|went home}.",
                    ],
                    "watch": [
                        "{A?} looked at it {ten|three} times to see the hour.",
                        "{A?} put it on {A.his} arm and was never late again.",
                    ],
                    "ball": [
                        "They played with it until it broke a {window|bowl|lamp}.",
                        "{A?} threw it to {B}, and it {hit|fell on} the {food}.",
                    ],
                    "book": [
                        "It was a story about a {horse|fish|dog} that could {read|fly|sing}.",
                        "{A?} read it {under a tree|in bed|all night} and forgot {B}.",
                    ],
                },
            ),
            [
                "{A} said that it was {the best|a wonderful|a lovely|a great} party.",
                "In the evening {A} was {very tired|tired but happy|very happy}.",
                "{B} said that {A.he} was a {good|kind|great} friend.",
                "",
            ],
        ],
    ),
    Script(
        "the ring",
        slots={
            "place": ["river", "kitchen", "garden", "sea"],
            "found": By(
                "place",
                {
                    "river": ["fish", "sand"],
                    "kitchen": ["bread", "soup"],
                    "garden": ["bird", "flower"],
                    "sea": ["fish", "sand"],
                },
            ),
        },
        events=[
            [
                "{A} had a {small|beautiful|lovely} gold ring from {A.his} {mother|sister|brother}.",
                "{A} had a gold ring, and {A.he} loved it very much.",
                "{B} gave {A} a {beautiful|small|lovely} gold ring.",
            ],
            By(
                "place",
                {
                    "river": [
                        "On the {river bank|bank of the river} it fell into the cold water.",
                        "{A?} washed {A.his} hands in the river, and the ring was gone.",
                    ],
                    "kitchen": [
                        "{A?} worked in the kitchen, and the ring fell from {A.his} hand.",
                        "{A?} made dinner with {B}, and then the ring was gone.",
                    ],
                    "garden": [
                        "{A?} worked in the garden all {morning|day}, and it fell from {A.his} hand.",
                        "It was gone when {A} came in from the garden.",
                    ],
                    "sea": [
                        "{A?} swam in the sea, and a {big|strong} wave took it.",
                        "{A?} played in the waves with {B}, and then it was gone.",
                    ],
                },
            ),
            [
                "{A?} cried because it was {A.his} {best|only} ring.",
                "{A} was so sad that {A.he} could not {eat|sleep}.",
                "{A} looked for {three|two} {hours|days} and found only a {shoe|bone|key}.",
            ],
            [
                "{B} looked for the ring {all day|until dark|with a lamp} but did not find it.",
                "{B} said that it was {only a ring|not so bad}, but {A} did not smile.",
                "",
            ],
            By(
                "found",
                {
                    "fish": [
                        "On {Sunday|Friday} {B} bought a {big|fresh} fish at the market.",
                        "Then {B} {caught|cooked} a {big|fresh} fish for dinner.",
                    ],
                    "sand": [
                        "Then {B} saw something {bright|yellow} in the {wet |}sand.",
                        "Then the dog of {B} {looked for a bone|ran} in the {wet |}sand.",
                    ],
                    "bread": [
                        "In the evening {B} ate a piece of {warm|fresh} bread.",
                        "Then {B} took the {warm|fresh} bread and heard a small noise.",
                    ],
                    "soup": [
                        "In the evening {B} ate a {big |}bowl of {hot |}soup.",
                        "Then something hard was in the soup of {B}.",
                    ],
                    "bird": [
                        "In {spring|autumn} {B} saw a {black|big} bird in the old tree.",
                        "Then a {black|big} bird flew over {B} with something bright.",
                    ],
                    "flower": [
                        "In {spring|summer} {B} found a {red|yellow} flower with a gold light.",
                        "In {spring|summer} a {red|yellow} flower came up for {B}.",
                    ],
                },
            ),
            By(
                "found",
                {
                    "fish": ["{The ring|It} was in the {stomach|mouth} of the fish."],
                    "sand": ["It was the {gold |}ring, and it was {not broken|still beautiful}."],
                    "bread": [
                        "It was the ring, and it was {still |}{beautiful|bright}.",
                        "{A} had baked the ring in the bread.",
                    ],
                    "soup": [
                        "It was the ring, and it hurt {B.his} tooth.",
                        "{B?} took it out, and it was the ring.",
                    ],
                    "bird": ["The ring was {up in the tree|high in the tree} with its eggs."],
                    "flower": ["The ring sat on it like {a bee|gold}."],
                },
            ),
            [
                "{A} put it on {A.his} finger and {laughed|cried for joy|smiled}.",
                "{B} put the ring back on {A.his} finger.",
                "{A} was so happy that {A.he} {sang|cried|ran to {B}}.",
            ],
        ],
    ),
    Script(
        "ball game",
        slots={
            "broke": ["window", "lamp", "umbrella"],
            "owner": ["baker", "teacher", "old woman", "doctor"],
            "mood": ["kind", "angry"],
        },
        events=[
            [
                "{A} and {B} played ball in the {park|garden|street}.",
                "{A} had a {new|big|wonderful} bat and {B} had a ball.",
                "It was {Sunday|Friday|summer}, and {A} wanted to play ball with {B}.",
            ],
            [
                "{B} threw the ball {hard|slowly|high}, and {A} {waited|smiled}.",
                "{A?} held the {heavy|light} bat in {A.his} hands, and {B} threw.",
            ],
            [
                "{A} hit the ball {hard|very hard|well} with the bat.",
                "The bat hit the ball, and {A} {smiled|ran}.",
            ],
            [
                "It flew high over the {tree|wall|house} {like a bird|and did not stop}.",
                "The ball flew {over the wall|over the tree|up into the sky}.",
            ],
            [
                "There was a loud noise, and the {broke} of the {owner} was broken.",
                "It hit the {broke} of the {owner} and broke it.",
            ],
            By(
                "mood",
                {
                    "kind": [
                        "The {owner} came out and {laughed|smiled|was not angry}.",
                        "{A?} was {afraid|sorry}, but the {owner} was {very |}kind.",
                    ],
                    "angry": [
                        "The {owner} came out and was {very|really} angry.",
                        "The {owner} held the ball and called {A} a {bad|terrible} child.",
                    ],
                },
            ),
            By(
                "mood",
                {
                    "kind": [
                        "{A} and {B} {paid for|helped with} the new {broke}.",
                        "The {owner} gave {A} {the ball|a new ball|tea and cake}.",
                    ],
                    "angry": [
                        "So {A} had to work for {two|three} {days|weeks}.",
                        "{A?} said sorry and paid with {A.his} money.",
                    ],
                },
            ),
            [
                "{B} said that it was a {great|wonderful|good} game all the same.",
                "{A} never played {ball|with the bat} by {the house|the street} again.",
                "",
            ],
        ],
    ),
    Script(
        "the sea",
        slots={"made": ["house", "dog", "boat", "fish"], "day": ["warm", "cold"]},
        events=[
            [
                "In {summer|spring} {A} and {B} {went|took a bus} to the sea.",
                "{A} wanted to {see|hear} the sea, so {B} took {A.him} to the beach.",
                "On a {day} {morning|day} {A} and {B} went to the beach.",
            ],
            By(
                "day",
                {
                    "warm": [
                        "The weather was {lovely|great|nice|wonderful}, and the sand was {hot|warm|white}.",
                        "The sand was so hot that {A} {ran|cried}.",
                    ],
                    "cold": [
                        "The weather was {awful|terrible|horrible|bad}, and nobody was {there|on the beach}.",
                        "The sky was grey, and the wind took {A.his} hat.",
                    ],
                },
            ),
            By(
                "day",
                {
                    "warm": [
                        "{A?} {ran|went} into the {sea|water} and played in the waves.",
                        "{B} swam {with the fish|for an hour}, and {A} slept in the sun.",
                    ],
                    "cold": [
                        "The waves were {high|grey and high}, and {B} did not swim.",
                        "{A?} put one foot into a wave, and it was {too|very|really} cold.",
                    ],
                },
            ),
            [
                "So they made a {big|beautiful|funny} {made} of {wet |}sand.",
                "Then {A} made a {big|beautiful|funny} {made} of sand with {B}.",
            ],
            [
                "{B} put {a flower|a hat|leaves} on the {made}, and it looked {great|lovely|good}.",
                "{A} said that it was the {best|first} {made} on the {whole |}beach.",
                "",
            ],
            [
                "But then a {big|strong} wave came {in|up the beach}.",
                "Then a wave came that was {as high as {A}|very high}.",
            ],
            [
                "The {made} was gone, and {A} was {wet|very wet|sad}.",
                "It took the {made} and the {shoes|hat|bag} of {B}.",
            ],
            [
                "They laughed and {ate|bought} {fish|bread and cheese|apples} by the sea.",
                "{B} said that it was a {wonderful|lovely|great} day {all the same|at the sea}.",
                "{A} slept {on the bus|on the train|in the car} with sand in {A.his} hair.",
            ],
        ],
    ),
    Script(
        "the mountain",
        slots={"bad": ["thirsty", "hungry", "lost"]},
        events=[
            [
                "{A} and {B} went for a {long|great|lovely} walk in the mountains.",
                "On {Sunday|Friday} {A} wanted to walk up a {high|big} mountain with {B}.",
                "The weather was {lovely|good|wonderful}, so {A} {called {B}|went with {B}} to walk up a mountain.",
            ],
            [
                "The way was {long|hard}, and {B} carried a {heavy|light} bag.",
                "{A.his} bag was {light|heavy}, and the sun was {warm|hot}.",
                "They rose {at six|early} and were {high up|very high} at nine.",
            ],
            By(
                "bad",
                {
                    "thirsty": [
                        "Soon {A} was {very |really |so }thirsty, but there was no {water|tea}{| left}.",
                        "They were thirsty, but {{A}|{B}} {lost|forgot} the {water|tea}.",
                    ],
                    "hungry": [
                        "Soon {A} was {very |really |}hungry, but there was {no food|nothing} in the bag.",
                        "{B?} wanted to eat, but the {bread|food} was {at home|on the train}.",
                    ],
                    "lost": [
                        "Then a {grey|white} cloud came, and {A} could not see {{B}|the way}.",
                        "Soon the {whole |}mountain was {grey|white}, and they were lost.",
                    ],
                },
            ),
            By(
                "bad",
                {
                    "thirsty": [
                        "Then {B} heard water, and it was a {small|cold} spring{| behind a tree}.",
                        "Then {A} found a spring with {cold|fresh} water under a {tree|wall}.",
                    ],
                    "hungry": [
                        "Then {B} saw a {small |}house with smoke{| and a light}.",
                        "A {farmer|woman} with {ten|six} cows came down the hill.",
                    ],
                    "lost": [
                        "Then {B} heard {a bell ring|a cow|a dog bark} behind them.",
                        "{A?} was afraid, but then {a bell rang|a dog barked}.",
                    ],
                },
            ),
            By(
                "bad",
                {
                    "thirsty": [
                        "The spring came out of the mountain, and {A} {laughed|washed {A.his} face} in it.",
                        "The water of the spring was so cold that {A.his} {tooth|head} hurt.",
                    ],
                    "hungry": [
                        "There a {farmer|kind woman} gave {A} {cheese|bread} and {milk|honey}.",
                        "For {very little|not much} money {B} got {cheese|eggs} and {milk|butter}.",
                    ],
                    "lost": [
                        "{A farmer|An old man} came with a lamp and {called|helped} {A}.",
                        "{A} held {B.his} hand, and they went {slowly|to it} over the hill.",
                    ],
                },
            ),
            [
                "From the top {A} could see {the sea|the city|the river}.",
                "At the top {B} {sang|ate an apple|took a picture} in the {strong |}wind.",
                "",
            ],
            [
                "In the evening their feet hurt, but it was a {great|good|wonderful} day.",
                "{A} slept on the {bus|train}, and {B} held {A.his} hat.",
                "{B} said that it was {the best|a wonderful|an awful|a terrible} walk.",
            ],
        ],
    ),
    Script(
        "honey",
        slots={"hit": ["hand", "face", "arm", "foot"], "use": ["bread", "tea", "cake"]},
        events=[
            [
                "{A} had bees {in the garden|behind the house|under a tree}.",
                "The bees of {A} flew {from flower to flower|to the roses} all {summer|day}.",
                "{A} and {B} wanted honey for their {bread|tea|cake}.",
            ],
            [
                "In {summer|autumn} their house was {full of|heavy with} {yellow |sweet |}honey.",
                "{Bees make honey|They worked hard}, so there was {a lot of|much} honey.",
            ],
            [
                "{A?} put on {A.his} {big|white|old} hat and went {slowly|to them}.",
                "{A?} opened the house of the bees {slowly|with smoke}.",
            ],
            [
                "The bees were {very |really |}angry and flew {out|at {A.him}|over {A.his} head}.",
                "{B} was {too loud|in the way}, and the bees were {very |}angry.",
            ],
            [
                "One hurt {B} in the {hit}, and {B.he} {cried|ran into the river|ran away}.",
                "A bee sat on the {hit} of {B}, and then it hurt.",
            ],
            [
                "Soon the {hit} was {red|hot|big and red}, and {A} put {water|butter} on it.",
                "{A} laughed because the {hit} was as big as {a ball|an apple}.",
            ],
            [
                "Then {A} gave {B} {some|a lot of} honey on {warm bread|a piece of cake}.",
                "They put the honey in the {use}, and it was {sweet|very sweet|tasty}.",
            ],
            [
                "It was so sweet that {B} forgot {the bee|{B.his} {hit}}.",
                "{B} said that it was {good|wonderful|tasty}, but {B.he} never went to a bee again.",
                "{B} never called a bee {kind|lovely|nice} again.",
            ],
        ],
    ),
    Script(
        "music",
        slots={"play": {"piano": 2, "drum": 1}, "good": ["good", "bad"]},
        events=[
            [
                "{A} {wanted|loved} to play the {play}.",
                "{A} played the {play} every {morning|evening|Friday|Sunday}.",
                "{A} had {an old|a new|a big} {play} in {A.his} room.",
            ],
            By(
                "good",
                {
                    "good": [
                        "The music was {lovely|beautiful|soft|wonderful}, and {people|children} stood still.",
                        "When {A} played, {every bird sang|the baby slept|nobody talked}.",
                    ],
                    "bad": [
                        "The music was {awful|terrible|horrible|bad}, and the {dog|cat} ran away.",
                        "When {A} played, {the dog barked|the baby cried|people closed the windows}.",
                    ],
                },
            ),
            [
                "{B} lived next door and {heard|had to hear} it all {day|evening}.",
                "{B}, who lived next door, heard every song {two|three|ten} times.",
            ],
            By(
                "good",
                {
                    "good": [
                        "{B?} {opened the window|sat down} and began to sing the song.",
                        "One {day|evening} {B} came and sang to the music.",
                    ],
                    "bad": [
                        "{B?} put {bread|a hat|paper} on {B.his} head, but it was too loud.",
                        "One {day|evening} {B} rang the bell and {said please|looked tired}.",
                    ],
                },
            ),
            By(
                "good",
                {
                    "good": [
                        "Soon the {teacher|postman|baker} asked them to play at {a party|the school}.",
                        "The {teacher|postman|baker} said that the song was {great|beautiful}.",
                    ],
                    "bad": [
                        "So {A} asked a {good|kind} teacher for help{| with the {play}}.",
                        "{A} was {sad|sorry}, and {B} called a good teacher.",
                    ],
                },
            ),
            By(
                "good",
                {
                    "good": [
                        "{All the people|Everyone} {sang|smiled}, and {A} got {roses|flowers}.",
                        "{A?} played for {two|three} hours, and nobody went home.",
                    ],
                    "bad": [
                        "{A?} worked hard for a {whole |long |}{winter|summer}.",
                        "Every {Friday|Sunday} the teacher {helped|played with} {A}.",
                    ],
                },
            ),
            By(
                "good",
                {
                    "good": [
                        "{Their hands were tired|They were tired}, but it was a {lovely|great|wonderful} evening.",
                        "{B} said that {music|the song} was {as sweet as honey|as good as gold}.",
                    ],
                    "bad": [
                        "Now the music was {not bad|really good|lovely}, and {B} sang to it.",
                        "In {spring|summer} {A} played for {B}, and it was {lovely|really good|not bad}.",
                    ],
                },
            ),
        ],
    ),
    Script(
        "soup",
        slots={
            "wrong": ["salt", "sugar", "lemon"],
            "taste": By("wrong", {"salt": "like the sea", "sugar": "sweet", "lemon": "sour"}),
        },
        events=[
            [
                "{A} wanted to make {soup|a big soup|fish soup} for {B}.",
                "It was a cold {evening|day|night}, and {A} cooked a {big |}soup for {B}.",
                "{B} was {hungry|tired|cold}, so {A} made a soup.",
            ],
            [
                "{A?} put {fish|meat|an old bone} and {butter|milk} into {hot |}water.",
                "The {fire|water} was hot, and {A} put in the {fish|meat}.",
            ],
            [
                "{A?} looked out of the window and {forgot the time|saw a {cat|bird}}.",
                "{A?} {sang a song|read a book|talked to the cat} and did not look.",
                "The {postman|teacher} rang the bell, and {A} did not look.",
            ],
            [
                "Too much {wrong} fell into the {soup|hot soup|bowl}.",
                "{A?} put in {wrong}, and then {A.he} put in more {wrong}.",
            ],
            [
                "{B?} {took|tasted} a little and said that it was {taste}.",
                "The soup tasted {taste}, and {B} {was not happy|did not smile|looked at the dog}.",
            ],
            [
                "{A} tried it too and {cried|laughed|turned red}.",
                "{A} said that it was {not bad|good|nice}, although {A.his} face was {red|white}.",
                "Nobody could call it {good|tasty|nice}, not the {dog|cat}.",
            ],
            [
                "Then {B} put in {more water|a lot of milk|bread and milk}.",
                "{A} gave the soup to the dog, but the dog {ran away|went to sleep}.",
            ],
            [
                "So they ate {bread|eggs|apples} and {cheese|honey} by the fire.",
                "In the end {A} and {B} had {bread|eggs|apples} for dinner.",
                "The {bread|cheese} was {dry|old}, but the evening was {lovely|wonderful|nice}.",
            ],
        ],
    ),
    Script(
        "late for work",
        slots={"job": ["market", "school", "hospital", "bank"]},
        events=[
            [
                "{A} woke up {late|in the sun|at nine} and looked at {A.his} watch.",
                "{A} worked {at|in} the {job} and had to be there at {six|nine}.",
                "In the morning {A} slept too {long|well}.",
            ],
            [
                "{The|{A.his}} watch said {six|nine}, but the sun was {very |}high{| over the {job}}.",
                "{A.his} watch {stopped|had stopped} in the night.",
                "{A?} {was late|had to run}, because {A.his} watch had stopped.",
            ],
            [
                "{A?} ran out {with one shoe|without {A.his} coat|with a piece of bread in {A.his} mouth}.",
                "{A?} put on {one shoe|a red and a black shoe|two hats} and ran{| to the bus| down the street}.",
                "The bus was {gone|full}, and the driver {was rude|gave {A.him} a wave}.",
                "{A?} saw the bus, but the {old|rude|tired} driver {did not stop|gave {A.him} a wave}.",
            ],
            [
                "Then {B} came {by|down the street} on {a horse|a bicycle|an old bicycle}.",
                "{A?} called {B}, who had {a red|an old} car.",
            ],
            [
                "They flew {down the hill|through the market}, and {A} {cried|held on}.",
                "{A} sat behind {B}, and they lost a {hat|shoe|bag of {apples|lemons}}.",
            ],
            [
                "At the {job} the door was closed{|, and {nobody|no car} was there}.",
                "But {nobody|only {a bird|a cat}} was {there|at the {job}}, and the door was closed.",
            ],
            [
                "It was Sunday, and {{A}|{B}} {laughed|cried|sat down|began to sing}.",
                "{B} {laughed|smiled} and {said|told {A}} that it was Sunday.",
            ],
            [
                "So {A} went home and {slept until {evening|dark}|had tea with {B}}.",
                "{A} said that it was a {lovely|great|wonderful} day {all the same|without work}.",
                "",
            ],
        ],
    ),
    Script(
        "storm",
        slots={"help": ["candle", "lamp", "fire"], "fear": ["dog", "cat", "horse"]},
        events=[
            [
                "In the evening {A} and {B} sat {in the kitchen|by the fire|by the window}.",
                "{A} was at home with the {fear}, and it was {dark|night}.",
                "{A} read a {long|funny} book{| to {B}}, and it was {dark|night}.",
            ],
            [
                "A {big|terrible|horrible} storm came over the {mountains|sea|hill|river}.",
                "A storm came, and the wind pulled at the {old |}tree and at the {window|door}.",
            ],
            [
                "Rain hit the {windows|door|house}, and the light went out.",
                "Then the light {of {A} |}went out{| in the whole {house|street}}.",
            ],
            [
                "Nobody could see {anything|{A}|a hand in front of {A.his} face}.",
                "{A?} could not see {anything|{A.his} hands|the door}.",
            ],
            [
                "The {fear} was {very |}afraid and {ran to the door|did not eat}.",
                "{A?} heard the {fear} {cry|run} and called it.",
                "The {fear} {sat|stood} {next to|behind} {A}, because it was {very |}afraid.",
            ],
            By(
                "help",
                {
                    "candle": [
                        "{B} {came with|found} a {long|little|white} candle, and it was light again.",
                        "{A?} {found|had} one candle {in a box|in a bag}, and it gave a {small|soft} light.",
                    ],
                    "lamp": [
                        "Then {B} came through the {rain|storm} with a {big|bright|little} lamp.",
                        "{B} held an old lamp {high|to the window}, and it gave a {bright|soft} light.",
                    ],
                    "fire": [
                        "Then {B} {came in and |}made a {big|bright|warm} fire with {wood|old wood|paper and wood}.",
                        "{A?} put {wood|paper} on the fire, and it was {warm|bright} again.",
                    ],
                },
            ),
            [
                "They {sang|ate {bread|cake|pie}|played} by its light until the storm was over.",
                "By its light {A} {read|told} a {funny|long} story to {B}.",
            ],
            [
                "In the morning {the old tree was down|the street was full of leaves|the sky was {white|bright}}.",
                "In the morning the sun was out, and the {fear} {ran out|was happy}.",
                "",
            ],
        ],
    ),
    Script(
        "picture",
        slots={"of": ["cat", "horse", "cow", "baby"], "look": ["good", "bad"]},
        events=[
            [
                "{A} painted a picture of a {white |black |}{of}.",
                "{A} wanted to have a picture of a {big|little|beautiful} {of}.",
                "{A} {stood|sat} in the garden and painted a {of}.",
            ],
            [
                "The {of} did not stand still, so {A} gave it {milk|an apple}.",
                "It took {three|two|ten} {hours|days}, and the {of} fell asleep.",
            ],
            [
                "{A.his} {hands|arms|shoes} were {soon |}{red|yellow|green} and {black|brown|white}.",
                "There was {red|yellow|green} on {A.his} {face|hair|hat}.",
            ],
            By(
                "look",
                {
                    "good": [
                        "The {big |little |}picture was {beautiful|lovely|wonderful}, and {A} {smiled|sang}.",
                        "The {of} in the picture looked {great|lovely|really good}.",
                    ],
                    "bad": [
                        "The {of} in the picture had {six|three|ten} {feet|arms}{| and no {face|head}}.",
                        "The {big |little |}picture was {awful|terrible|horrible}, but {A} loved it.",
                    ],
                },
            ),
            By(
                "look",
                {
                    "good": [
                        "{B} {stood|sat} in front of it and {said nothing|cried a little}.",
                        "{B} said that {it|the {of}} was {beautiful|great|wonderful|lovely}.",
                    ],
                    "bad": [
                        "{B} {laughed and |}asked {A} about the {tree|house|cloud|fish}.",
                        "{B} {thought|said} that it was a picture of a {tree|house|cloud}.",
                    ],
                },
            ),
            By(
                "look",
                {
                    "good": [
                        "A {man|woman} from the city {wanted|came} to buy it.",
                        "{A} {took|carried} it to the market, and {many people|a doctor} wanted it.",
                    ],
                    "bad": [
                        "{A} was {very |}{sad|angry}, and {B} said sorry{| to the {of}}.",
                        "{A} was not happy for {two|three} {days|hours}.",
                    ],
                },
            ),
            By(
                "look",
                {
                    "good": [
                        "{A?} got {a lot of|so much} money and took it to the bank.",
                        "But {A} gave it to {B}, {who put it by the bed|for nothing}.",
                    ],
                    "bad": [
                        "Now it is in the {kitchen|room} of {B}, {behind the door|over the bed}.",
                        "Then {B} {bought|took} it and put it {behind the door|over the bed}.",
                    ],
                },
            ),
        ],
    ),
)
