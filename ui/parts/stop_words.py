"""Words that say nothing of what a text is about: never highlighted. The most frequent ones of the larger languages."""

from __future__ import annotations

from typing import Final

_EN = """a about above after again against all am an and any are as at be because been before being below
between both but by can could did do does doing don down during each few for from further had has have having he
her here hers him his how i if in into is it its itself just me more most my no nor not now of off on once only
or other our ours out over own same shall she should so some such than that the their theirs them then there
these they this those through to too under until up upon very was we were what when where which while who whom
whose why will with would you your yours"""
_DE = """aber als am an auch auf aus bei bin bis bist da damit dann das dass dem den der des die dies diese
dieser dieses doch du durch ein eine einem einen einer eines er es für hat hatte ich ihr im in ist ja kann kein
keine man mein mit nach nicht noch nur ob oder ohne sehr sein seine sich sie sind so über um und uns unter vom
von vor war was wenn wer werden wie wieso wir wird wo zu zum zur"""
_FR = """au aux avec ce ces cette comme dans de des du elle en est et être il ils je la le les leur lui ma mais
me même mes mon ne nos notre nous on ou où par pas pour qu que quel quelle qui sa sans se ses son sont sur ta te
tes ton tu un une vos votre vous y"""
_ES = """al como con cual cuando de del desde donde el ella ellos en entre era es esta este esto está fue ha hay
la las le les lo los me mi más muy nada ni no nos o para pero por porque que qué quien se ser si sin sobre son
su sus también te tiene todo tu un una uno y ya yo"""
_IT = """ai al alla alle anche che chi ci come con cui da dal dalla dei del della delle di dove e ed era gli ha
ho il in io la le lei lo loro lui ma mi ne nei nel nella noi non o per perché più quale quando questa questo se
sei si sono su sua suo ti tra un una uno voi"""
_NL = """aan als bij dat de der deze die dit door een en er geen had heb heeft het hij hoe ik in is je kan maar
me meer met mijn naar niet nog of om ook op over te tot uit van voor waar was wat we wel wie wij ze zich zij
zijn zo zonder"""

STOP_WORDS: Final = frozenset(" ".join((_EN, _DE, _FR, _ES, _IT, _NL)).split())
