"""Test names of the JVM's conformance kit for Reactive Streams.

The list is one that nobody has to keep in mind: what is reported (`scripts/prove/tck.py`) is held against it. The kit
leaves some rules untested, as an observer inside a JVM cannot see them; here all bytes are seen: they are tested too.
"""

from __future__ import annotations

import re

VERSION = "reactive-streams-jvm, commit a625d3a"

KIT: dict[str, tuple[str, ...]] = {
    "PublisherVerification": (
        "required_validate_maxElementsFromPublisher",
        "required_validate_boundedDepthOfOnNextAndRequestRecursion",
        "required_createPublisher1MustProduceAStreamOfExactly1Element",
        "required_createPublisher3MustProduceAStreamOfExactly3Elements",
        "required_spec101_subscriptionRequestMustResultInTheCorrectNumberOfProducedElements",
        "required_spec102_maySignalLessThanRequestedAndTerminateSubscription",
        "stochastic_spec103_mustSignalOnMethodsSequentially",
        "optional_spec104_mustSignalOnErrorWhenFails",
        "required_spec105_mustSignalOnCompleteWhenFiniteStreamTerminates",
        "optional_spec105_emptyStreamMustTerminateBySignallingOnComplete",
        "untested_spec106_mustConsiderSubscriptionCancelledAfterOnErrorOrOnCompleteHasBeenCalled",
        "required_spec107_mustNotEmitFurtherSignalsOnceOnCompleteHasBeenSignalled",
        "untested_spec107_mustNotEmitFurtherSignalsOnceOnErrorHasBeenSignalled",
        "untested_spec108_possiblyCanceledSubscriptionShouldNotReceiveOnErrorOrOnCompleteSignals",
        "required_spec109_mustIssueOnSubscribeForNonNullSubscriber",
        "untested_spec109_subscribeShouldNotThrowNonFatalThrowable",
        "required_spec109_subscribeThrowNPEOnNullSubscriber",
        "required_spec109_mayRejectCallsToSubscribeIfPublisherIsUnableOrUnwillingToServeThemRejectionMustTriggerOnErrorAfterOnSubscribe",
        "untested_spec110_rejectASubscriptionRequestIfTheSameSubscriberSubscribesTwice",
        "optional_spec111_maySupportMultiSubscribe",
        "optional_spec111_registeredSubscribersMustReceiveOnNextOrOnCompleteSignals",
        "optional_spec111_multicast_mustProduceTheSameElementsInTheSameSequenceToAllOfItsSubscribersWhenRequestingOneByOne",
        "optional_spec111_multicast_mustProduceTheSameElementsInTheSameSequenceToAllOfItsSubscribersWhenRequestingManyUpfront",
        "optional_spec111_multicast_mustProduceTheSameElementsInTheSameSequenceToAllOfItsSubscribersWhenRequestingManyUpfrontAndCompleteAsExpected",
        "required_spec302_mustAllowSynchronousRequestCallsFromOnNextAndOnSubscribe",
        "required_spec303_mustNotAllowUnboundedRecursion",
        "untested_spec304_requestShouldNotPerformHeavyComputations",
        "untested_spec305_cancelMustNotSynchronouslyPerformHeavyComputation",
        "required_spec306_afterSubscriptionIsCancelledRequestMustBeNops",
        "required_spec307_afterSubscriptionIsCancelledAdditionalCancelationsMustBeNops",
        "required_spec309_requestZeroMustSignalIllegalArgumentException",
        "required_spec309_requestNegativeNumberMustSignalIllegalArgumentException",
        "optional_spec309_requestNegativeNumberMaySignalIllegalArgumentExceptionWithSpecificMessage",
        "required_spec312_cancelMustMakeThePublisherToEventuallyStopSignaling",
        "required_spec313_cancelMustMakeThePublisherEventuallyDropAllReferencesToTheSubscriber",
        "required_spec317_mustSupportAPendingElementCountUpToLongMaxValue",
        "required_spec317_mustSupportACumulativePendingElementCountUpToLongMaxValue",
        "required_spec317_mustNotSignalOnErrorWhenPendingAboveLongMaxValue",
    ),
    "SubscriberWhiteboxVerification": (
        "required_exerciseWhiteboxHappyPath",
        "required_spec201_mustSignalDemandViaSubscriptionRequest",
        "untested_spec202_shouldAsynchronouslyDispatch",
        "required_spec203_mustNotCallMethodsOnSubscriptionOrPublisherInOnComplete",
        "required_spec203_mustNotCallMethodsOnSubscriptionOrPublisherInOnError",
        "untested_spec204_mustConsiderTheSubscriptionAsCancelledInAfterRecievingOnCompleteOrOnError",
        "required_spec205_mustCallSubscriptionCancelIfItAlreadyHasAnSubscriptionAndReceivesAnotherOnSubscribeSignal",
        "untested_spec206_mustCallSubscriptionCancelIfItIsNoLongerValid",
        "untested_spec207_mustEnsureAllCallsOnItsSubscriptionTakePlaceFromTheSameThreadOrTakeCareOfSynchronization",
        "required_spec208_mustBePreparedToReceiveOnNextSignalsAfterHavingCalledSubscriptionCancel",
        "required_spec209_mustBePreparedToReceiveAnOnCompleteSignalWithPrecedingRequestCall",
        "required_spec209_mustBePreparedToReceiveAnOnCompleteSignalWithoutPrecedingRequestCall",
        "required_spec210_mustBePreparedToReceiveAnOnErrorSignalWithPrecedingRequestCall",
        "required_spec210_mustBePreparedToReceiveAnOnErrorSignalWithoutPrecedingRequestCall",
        "untested_spec211_mustMakeSureThatAllCallsOnItsMethodsHappenBeforeTheProcessingOfTheRespectiveEvents",
        "untested_spec212_mustNotCallOnSubscribeMoreThanOnceBasedOnObjectEquality_specViolation",
        "untested_spec213_failingOnSignalInvocation",
        "required_spec213_onSubscribe_mustThrowNullPointerExceptionWhenParametersAreNull",
        "required_spec213_onNext_mustThrowNullPointerExceptionWhenParametersAreNull",
        "required_spec213_onError_mustThrowNullPointerExceptionWhenParametersAreNull",
        "untested_spec301_mustNotBeCalledOutsideSubscriberContext",
        "required_spec308_requestMustRegisterGivenNumberElementsToBeProduced",
        "untested_spec310_requestMaySynchronouslyCallOnNextOnSubscriber",
        "untested_spec311_requestMaySynchronouslyCallOnCompleteOrOnError",
        "untested_spec314_cancelMayCauseThePublisherToShutdownIfNoOtherSubscriptionExists",
        "untested_spec315_cancelMustNotThrowExceptionAndMustSignalOnError",
        "untested_spec316_requestMustNotThrowExceptionAndMustOnErrorTheSubscriber",
    ),
    "SubscriberBlackboxVerification": (
        "required_spec201_blackbox_mustSignalDemandViaSubscriptionRequest",
        "untested_spec202_blackbox_shouldAsynchronouslyDispatch",
        "required_spec203_blackbox_mustNotCallMethodsOnSubscriptionOrPublisherInOnComplete",
        "required_spec203_blackbox_mustNotCallMethodsOnSubscriptionOrPublisherInOnError",
        "untested_spec204_blackbox_mustConsiderTheSubscriptionAsCancelledInAfterRecievingOnCompleteOrOnError",
        "required_spec205_blackbox_mustCallSubscriptionCancelIfItAlreadyHasAnSubscriptionAndReceivesAnotherOnSubscribeSignal",
        "untested_spec206_blackbox_mustCallSubscriptionCancelIfItIsNoLongerValid",
        "untested_spec207_blackbox_mustEnsureAllCallsOnItsSubscriptionTakePlaceFromTheSameThreadOrTakeCareOfSynchronization",
        "untested_spec208_blackbox_mustBePreparedToReceiveOnNextSignalsAfterHavingCalledSubscriptionCancel",
        "required_spec209_blackbox_mustBePreparedToReceiveAnOnCompleteSignalWithPrecedingRequestCall",
        "required_spec209_blackbox_mustBePreparedToReceiveAnOnCompleteSignalWithoutPrecedingRequestCall",
        "required_spec210_blackbox_mustBePreparedToReceiveAnOnErrorSignalWithPrecedingRequestCall",
        "required_spec210_blackbox_mustBePreparedToReceiveAnOnErrorSignalWithoutPrecedingRequestCall",
        "untested_spec211_blackbox_mustMakeSureThatAllCallsOnItsMethodsHappenBeforeTheProcessingOfTheRespectiveEvents",
        "untested_spec212_blackbox_mustNotCallOnSubscribeMoreThanOnceBasedOnObjectEquality",
        "untested_spec213_blackbox_failingOnSignalInvocation",
        "required_spec213_blackbox_onSubscribe_mustThrowNullPointerExceptionWhenParametersAreNull",
        "required_spec213_blackbox_onNext_mustThrowNullPointerExceptionWhenParametersAreNull",
        "required_spec213_blackbox_onError_mustThrowNullPointerExceptionWhenParametersAreNull",
        "untested_spec301_blackbox_mustNotBeCalledOutsideSubscriberContext",
        "untested_spec308_blackbox_requestMustRegisterGivenNumberElementsToBeProduced",
        "untested_spec310_blackbox_requestMaySynchronouslyCallOnNextOnSubscriber",
        "untested_spec311_blackbox_requestMaySynchronouslyCallOnCompleteOrOnError",
        "untested_spec314_blackbox_cancelMayCauseThePublisherToShutdownIfNoOtherSubscriptionExists",
        "untested_spec315_blackbox_cancelMustNotThrowExceptionAndMustSignalOnError",
        "untested_spec316_blackbox_requestMustNotThrowExceptionAndMustOnErrorTheSubscriber",
    ),
    "IdentityProcessorVerification": (
        "required_spec104_mustCallOnErrorOnAllItsSubscribersIfItEncountersANonRecoverableError",
        "required_mustRequestFromUpstreamForElementsThatHaveBeenRequestedLongAgo",
        "mustImmediatelyPassOnOnErrorEventsReceivedFromItsUpstreamToItsDownstream",
    ),
}
"""By verification. The processor's has those of a publisher and of a subscriber, too."""


def _untested(name: str) -> bool:
    return name.startswith("untested_")


TESTED = tuple(name for names in KIT.values() for name in names if not _untested(name))
"""The 59 that the kit has a test for: required, optional and stochastic."""

UNTESTED = tuple(
    name
    for verification in ("PublisherVerification", "SubscriberWhiteboxVerification")
    for name in KIT[verification]
    if _untested(name)
)
"""The 20 rules that it leaves untested. Those of the black box are the same ones, or tested in the white box."""


def rule_of(name: str) -> str:
    """The number of the rule that is part of a name, or ""."""
    found = re.search(r"_spec(\d)(\d\d)_", name)
    return f"{found[1]}.{int(found[2])}" if found else ""


_NO_HANDLERS = "an engine calls no handlers: it hands out events"
_NO_OBJECTS = "an engine has ids, and no object that can be dropped"
_NO_THREADS = "an engine belongs to one thread at a time"
NOT_IN_AN_ENGINE = {
    "untested_spec202_shouldAsynchronouslyDispatch": _NO_HANDLERS,
    "untested_spec213_failingOnSignalInvocation": _NO_HANDLERS,
    "untested_spec206_mustCallSubscriptionCancelIfItIsNoLongerValid": _NO_OBJECTS,
    "untested_spec207_mustEnsureAllCallsOnItsSubscriptionTakePlaceFromTheSameThreadOrTakeCareOfSynchronization": (
        _NO_THREADS
    ),
}
"""Rules that only an adapter can show, and why."""

NOT_ON_ONE_ENGINE = {
    **NOT_IN_AN_ENGINE,
    **dict.fromkeys(KIT["IdentityProcessorVerification"], "a relay is two engines"),
    **dict.fromkeys(
        (
            "required_spec302_mustAllowSynchronousRequestCallsFromOnNextAndOnSubscribe",
            "required_spec303_mustNotAllowUnboundedRecursion",
            "required_validate_boundedDepthOfOnNextAndRequestRecursion",
        ),
        "who requests from within an event is the other engine",
    ),
    "required_spec313_cancelMustMakeThePublisherEventuallyDropAllReferencesToTheSubscriber": "looked at on both sides",
    "untested_spec314_cancelMayCauseThePublisherToShutdownIfNoOtherSubscriptionExists": "looked at on both sides",
}
"""Rules that need two."""

NOT_IN_A_PAIR = {
    **NOT_IN_AN_ENGINE,
    **dict.fromkeys(
        (
            "untested_spec310_requestMaySynchronouslyCallOnNextOnSubscriber",
            "untested_spec311_requestMaySynchronouslyCallOnCompleteOrOnError",
        ),
        "a flush is one engine's",
    ),
    "untested_spec212_mustNotCallOnSubscribeMoreThanOnceBasedOnObjectEquality_specViolation": "no engine answers twice",
}
"""Rules that need a side that breaks one, or are about one side's bytes."""
