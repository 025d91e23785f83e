---- MODULE MC ----
EXTENDS Tolliver
\* Calls 1 and 3 are one, made again by a program that lost its answer. All have the same bytes, so that an id that comes
\* round tells them apart no more; there are fewer ids than messages, so it does.
Keys == <<1, 0, 1, 0>>
Bodies == <<7, 7, 7, 7>>
====
