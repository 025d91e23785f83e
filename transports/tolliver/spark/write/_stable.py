"""Batches that have one shape in every try.

A message of a task is known by the task's partition and the row's place in it (T-72a). Where a batch is computed again
on other cores, of files that were split otherwise, its partitions are others: then each row is a message that was never
sent. So the partitions are made of the rows alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def stable(df: DataFrame, key: str | Column, *, partitions: int) -> DataFrame:
    """The same rows in so many partitions, which are the same in every try, whatever the cores: for a `writeId`.

    `key` is a column, by name or as an expression, whose value no two rows of the batch share; those of several columns
    together are `functions.struct("a", "b")`. Rows are dealt to the partitions by it, and sorted by it within. Columns
    may be selected and renamed behind it; nothing may partition the rows again.

    Raises ValueError for a streaming DataFrame, with what to write instead (T-72a).
    """
    if df.isStreaming:
        raise ValueError(
            "Spark sorts no rows of a streaming DataFrame, so its batches cannot be made stable. Either give the sink "
            f'ids: write df.repartition({partitions}, key) with .option("idColumn", ...), a column of numbers that '
            "belong to the rows and are different within a partition. Or write each batch by itself: "
            f"df.writeStream.foreachBatch(write), where write(batch, number) has stable(batch, key, "
            f'partitions={partitions}).write.format("tolliver") with .option("writeId", f"a-name/{{number}}")'
        )
    return df.repartition(partitions, key).sortWithinPartitions(key)
