import Basics
import OfflineQueue
import Testing

@testable import Health

/// Each rule, one row a case: the facts, and the item that follows.
@Suite struct HealthRulesTests {
    private static func snapshot(
        _ change: (inout HealthSnapshot) -> Void = { _ in }
    ) -> HealthSnapshot {
        var snapshot = HealthSnapshot()
        snapshot.straps = [HealthSnapshot.Strap(id: 1, address: "C0:00:00:00:00:01", label: "Ada")]
        snapshot.straps[0].link = "streaming"
        snapshot.adapters = [HealthSnapshot.Adapter(address: "00:1A:7D:DA:71:01")]
        snapshot.deliveries = [HealthSnapshot.Delivery(id: 1, name: "e1")]
        change(&snapshot)
        return snapshot
    }

    private static func hold(
        _ reason: String, cause: HealthSnapshot.Delivery.Hold.Cause = .other
    ) -> HealthSnapshot.Delivery.Hold {
        .init(
            reason: reason, meaning: "the exchange refuses", remedy: "ask its operator",
            cause: cause)
    }

    private func names(_ change: (inout HealthSnapshot) -> Void) -> [HealthName] {
        HealthRules.conditions(of: Self.snapshot(change)).map(\.name)
    }

    /// A patient for whom a device was to be chosen got advice about organizations.
    @Test func theAdviceForAHeldPatientIsThatOfTheReason() {
        func advice(_ hold: HealthSnapshot.Delivery.Hold) -> String? {
            HealthRules.conditions(
                of: Self.snapshot {
                    $0.deliveries[0].kind = .practitionerKey
                    $0.deliveries[0].heldStraps = [
                        .init(strap: 1, label: "Ada", isWorn: true, hold: hold)
                    ]
                }
            ).first { $0.name == .patientHeld }?.advice
        }
        #expect(advice(Self.hold("device-not-chosen")) == "ask its operator")
        #expect(
            advice(Self.hold("wrong-patient", cause: .access))?.contains("organization") == true)
    }

    @Test func whatTheDestinationSaidOfAHoldIsShown() {
        let conditions = HealthRules.conditions(
            of: Self.snapshot {
                $0.deliveries[0].hold = Self.hold("moved")
                $0.deliveries[0].hold?.detail = "the server answers HTTP 301"
            })
        #expect(
            conditions.first?.message.contains("(moved): the server answers HTTP 301; nothing")
                == true, "\(conditions)")
    }

    /// A strap that sent, was not stored and was not recorded was two items with one name.
    @Test func aThingThatTwoRulesFindIsOneItem() {
        let conditions = HealthRules.conditions(
            of: Self.snapshot {
                $0.straps[0].unstoredTime = .seconds(61)
                $0.straps[0].unrecordedTime = .seconds(11)
                // The file of all alerts cannot be read, and one is called so.
                $0.alerts = ["alerts", "alerts"].map {
                    .init(name: $0, undeliveredTime: .seconds(60), fault: "no connection")
                }
            })
        #expect(conditions.map(\.name) == [.alertNotDelivered, .strapNotStored])
    }

    /// They had one identity, and the log lost the second.
    @Test func twoHoldsOfOnePlaceAreTwoItems() {
        let conditions = HealthRules.conditions(
            of: Self.snapshot {
                $0.deliveries = ["e1", "e2", "e3"].enumerated().map {
                    var delivery = HealthSnapshot.Delivery(id: Int64($0.offset), name: $0.element)
                    delivery.place = "https://exchange.example"
                    delivery.hold = Self.hold($0.offset == 1 ? "moved" : "schema", cause: .place)
                    return delivery
                }
            })
        #expect(conditions.map(\.deliveries) == [["e1", "e3"], ["e2"]])
        #expect(Set(conditions.map(\.subject)).count == 2)
    }

    struct Row: Sendable {
        var name: HealthName
        var change: @Sendable (inout HealthSnapshot) -> Void

        init(_ name: HealthName, _ change: @escaping @Sendable (inout HealthSnapshot) -> Void) {
            self.name = name
            self.change = change
        }
    }

    static let rows: [Row] = radio + straps + store + deliveries

    private static let radio = [
        Row(.busAbsent) { $0.radio = .noBus },
        Row(.bluetoothdAbsent) { $0.radio = .noDaemon },
        Row(.bluetoothdHung) { $0.radio = .daemonHung(for: .seconds(40)) },
        Row(.bluetoothdRefuses) { $0.radio = .daemonDenied },
        Row(.bluetoothdRefuses) { $0.radio = .daemonRefuses(error: "org.bluez.Error.Failed") },
        Row(.noAdapter) { $0.radio = .noAdapter },
        Row(.radioOff) { $0.radio = .poweredOff },
        Row(.radioSilent) { $0.adapters[0].silentTime = .seconds(130) },
        Row(.adapterFull) { $0.adapters[0].refusesLinks = true },
    ]
    private static let straps = [
        Row(.batteryLow) { $0.straps[0].batteryPercent = 14 },
        Row(.bondLost) { $0.straps[0].trouble = .bondRefused },
        Row(.bondLost) { $0.straps[0].trouble = .bondMissing },
        Row(.strapUnreachable) { $0.straps[0].trouble = .unreachable(for: .seconds(90)) },
        Row(.strapTaken) { $0.straps[0].trouble = .taken },
        Row(.strapIsClassic) { $0.straps[0].trouble = .classic },
        Row(.strapMoved) { $0.straps[0].trouble = .otherAddress("C0:00:00:00:00:02") },
        Row(.strapLeaves) { $0.straps[0].fixedAge = .seconds(30) },
        Row(.doubledStream) { $0.straps[0].isDoubled = true },
        Row(.strapSilent) { $0.straps[0].silentTime = .seconds(61) },
        Row(.strapIntermittent) { $0.straps[0].missingTime = .seconds(226) },
        Row(.noHeartRate) { $0.straps[0].withoutRateTime = .seconds(301) },
        Row(.strapNotStored) { $0.straps[0].unstoredTime = .seconds(61) },
        Row(.strapNotStored) { $0.straps[0].unrecordedTime = .seconds(11) },
    ]
    private static let store = [
        Row(.clockUntrusted) { $0.clockDoubt = .unsynchronised },
        Row(.clockUntrusted) { $0.clockDoubt = .early(.epoch) },
        Row(.clockUntrusted) { $0.clockDoubt = .late(.epoch, latestYear: 2031) },
        Row(.clockStepped) { $0.clockStep = .init(size: .seconds(-3_600), age: .seconds(60)) },
        Row(.clockUnknown) { $0.store.clockUnknown = 4 },
        Row(.storeUnreadable) { $0.store.readFault = "read totals: disk I/O error" },
        Row(.storeUnwritable) {
            $0.store.writeFault = .init(message: "commit: full", advice: "Free space")
        },
        Row(.diskNearlyFull) { $0.store.scarceBytes = 31 << 20 },
        Row(.storeStalled) {
            $0.store.buffered = 70
            $0.store.uncommittedTime = .seconds(61)
        },
        Row(.storeSalvaged) {
            $0.store.salvage = .init(
                id: 1, carried: 9, stored: .init(samples: 10, at: "2026-12-01 00:00 UTC"),
                unknown: 1, isDone: true, fault: nil, file: "queue.sqlite.broken-1")
        },
        Row(.registryUnwritten) { $0.store.registryFault = "write registry: no space" },
        Row(.storeMissing) { $0.store.missing = "the store's file was deleted" },
        Row(.storeDamaged) { $0.store.damagedRows = 3 },
        Row(.queueNearlyFull) {
            $0.store.fill = .init(percent: 83, isFull: false, refusesNew: true)
        },
        Row(.queueFull) { $0.store.fill = .init(percent: 100, isFull: true, refusesNew: true) },
        Row(.samplesLost) { $0.store.lost = ["max-age": 3, "queue-full": 1] },
        Row(.deadLetters) { $0.store.dead = 2 },
        Row(.notEnrolled) { $0.store.notEnrolled = 2 },
        Row(.notEnrolled) {
            $0.store.notEnrolled = 2
            $0.store.notEnrolledEnded = 2
        },
        Row(.pageUnavailable) {
            $0.services = [.init(name: "page.listen", isPage: true, fault: "address in use")]
        },
        Row(.serviceStopped) { $0.services = [.init(name: "radio", fault: "it ended")] },
        Row(.boardChanged) { $0.isOtherBoard = true },
        Row(.alertNotDelivered) {
            $0.alerts = [.init(name: "mail", undeliveredTime: .seconds(900), fault: "no answer")]
        },
    ]
    private static let deliveries = [
        Row(.enrollAgain) { $0.deliveries[0].wantsEnrolling = true },
        Row(.consentMissing) { $0.deliveries[0].hold = hold("no-consent", cause: .consent) },
        Row(.deliveryHeld) { $0.deliveries[0].hold = hold("device-unknown") },
        Row(.exchangeUnreachable) { $0.deliveries[0].fault = "answers 503" },
        Row(.serviceStopped) { $0.deliveries[0].stopped = "it ended by itself" },
        Row(.patientHeld) {
            $0.deliveries[0].heldStraps = [
                .init(strap: 1, label: "Ada", isWorn: true, hold: hold("no-grant"))
            ]
        },
        Row(.deliveryStalled) {
            $0.deliveries[0].pending = 700
            $0.deliveries[0].stalledTime = .seconds(601)
        },
        Row(.fallingBehind) {
            $0.deliveries[0].pending = 700
            $0.deliveries[0].growth = 400
        },
    ]

    @Test func aGatewayOnWhichAllFlowsIsWell() {
        #expect(HealthRules.conditions(of: Self.snapshot()).isEmpty)
        #expect(HealthRules.conditions(of: HealthSnapshot()).isEmpty)
    }

    @Test(arguments: rows.indices)
    func eachConditionIsSaidByItsNameAndAlone(index: Int) throws {
        let row = Self.rows[index]
        let found = HealthRules.conditions(of: Self.snapshot(row.change))
        #expect(found.map(\.name) == [row.name])
        let one = try #require(found.first)
        #expect(!one.message.isEmpty && !one.advice.isEmpty)
    }

    /// An item of samples of before, which stays until a person acts, would keep the sign of life away for weeks.
    @Test func onlyWhatKeepsTheSamplesOfNowEndsTheSignOfLife() {
        func flows(_ change: (inout HealthSnapshot) -> Void) -> Bool {
            let conditions = HealthRules.conditions(of: Self.snapshot(change))
            #expect(!conditions.isEmpty)
            return HealthRules.heartbeatsFlow(conditions)
        }
        for isNow in [true, false] {
            #expect(
                flows {
                    $0.clockDoubt = .unsynchronised
                    $0.store.givesTimes = !isNow
                } == !isNow)
            #expect(
                flows {
                    $0.store.clockUnknown = 5
                    $0.store.givesTimes = !isNow
                } == !isNow)
            #expect(
                flows {
                    $0.store.notEnrolled = 5
                    $0.store.notEnrolledEnded = isNow ? 0 : 5
                } == !isNow)
            for cause in [HealthSnapshot.Delivery.Hold.Cause.access, .consent] {
                let hold = Self.hold("held", cause: cause)
                #expect(
                    flows {
                        $0.deliveries[0].heldStraps = [
                            .init(strap: 1, label: "Ada", isWorn: isNow, hold: hold)
                        ]
                    } == !isNow)
            }
            #expect(
                flows {
                    $0.isOtherBoard = true
                    $0.deliveries[0].waitsForBoard = isNow
                } == !isNow)
        }
    }

    /// Names without a rule here are judged elsewhere, or are not judged at all.
    @Test func everyNameHasARule() {
        let judged = Set(Self.rows.map(\.name))
        #expect(Set(HealthName.allCases).subtracting(judged) == [])
    }

    @Test(arguments: HealthName.allCases)
    func everyNameHasAMeaningAndARemedy(name: HealthName) {
        #expect(!name.meaning.isEmpty && !name.remedy.isEmpty)
        #expect(!name.meaning.contains("\n") && !name.remedy.contains("\n"))
    }

    @Test func whileTheRadioIsAwayNoStrapIsCalledSilent() {
        #expect(
            names {
                $0.radio = .noDaemon
                $0.straps[0].silentTime = .seconds(300)
            } == [.bluetoothdAbsent])
        // A hung bluetoothd is not cured by moistening electrodes.
        #expect(
            names {
                $0.radio = .daemonHung(for: .seconds(70))
                $0.straps[0].silentTime = .seconds(70)
            } == [.bluetoothdHung])
    }

    /// `strap-silent` came and went with each of its links, and was in its place for the seconds between.
    @Test func aStrapThatComesAndGoesIsSilentOnlyOnceItStaysAway() {
        func names(silentFor silence: Duration) -> [HealthName] {
            self.names {
                $0.straps[0].missingTime = .seconds(800)
                $0.straps[0].silentTime = silence
            }
        }
        #expect(names(silentFor: .zero) == [.strapIntermittent])
        #expect(names(silentFor: .seconds(90)) == [.strapIntermittent])
        #expect(names(silentFor: .seconds(301)) == [.strapSilent])
        #expect(
            self.names {
                $0.straps[0].missingTime = .seconds(800)
                $0.straps[0].withoutRateTime = .seconds(301)
            } == [.noHeartRate])
    }

    @Test func aStrapThatComesAndGoesForAKnownCauseIsNotToldToComeNearer() {
        #expect(
            names {
                $0.straps[0].missingTime = .seconds(800)
                $0.straps[0].fixedAge = .seconds(30)
            } == [.strapLeaves])
        #expect(
            names {
                $0.straps[0].missingTime = .seconds(800)
                $0.radio = .poweredOff
            } == [.radioOff])
    }

    @Test func whoIsRefusedForAnotherReasonIsNotSentToThePolicy() {
        let snapshot = Self.snapshot { $0.radio = .daemonRefuses(error: "org.bluez.Error.Failed") }
        let found = HealthRules.conditions(of: snapshot)
        #expect(found.first?.message.contains("org.bluez.Error.Failed") == true)
        #expect(found.first?.advice.contains("policy") == false)
    }

    @Test func aStrapWithASlowCadenceIsJudgedByIt() {
        #expect(
            names {
                $0.straps[0].silentTime = .seconds(80)
                $0.straps[0].silenceLimit = .seconds(100)
            } == [])
    }

    @Test func theAdviceForALostBondIsACommandThatCanBeCopied() {
        let snapshot = Self.snapshot { $0.straps[0].trouble = .bondRefused }
        let advice = HealthRules.conditions(of: snapshot).first?.advice
        #expect(advice?.contains("edge-gateway pair C0:00:00:00:00:01") == true)
    }

    /// Who had forgotten the strap was told to pair it again, which binds nothing.
    @Test func theAdviceForSamplesWithoutAnEnrollmentIsWhatHelpsThem() {
        let found = HealthRules.conditions(
            of: Self.snapshot {
                $0.store.notEnrolled = 5
                $0.store.notEnrolledEnded = 2
            })
        #expect(found.map(\.name) == [.notEnrolled, .notEnrolled])
        #expect(found.map { $0.message.prefix(9) } == ["3 samples", "2 samples"])
        #expect(found.map { $0.advice.contains("pair STRAP again") } == [true, false])
        #expect(found.map { $0.advice.contains("edge-gateway queue assign") } == [false, true])
        #expect(found.allSatisfy { $0.advice.contains("edge-gateway queue discard") })
        #expect(found.map { $0.advice.contains("forget STRAP") } == [true, false])
        #expect(Set(found.map(\.subject)).count == 2, "each has its own beginning")
    }

    @Test func aStrapWithoutAPlaceIsNotToldToBeWorn() {
        let found = HealthRules.conditions(
            of: Self.snapshot {
                $0.adapters[0].refusesLinks = true
                $0.straps[0].silentTime = .seconds(300)
                $0.straps[0].trouble = .noPlace
            })
        #expect(found.map(\.name) == [.adapterFull])
    }

    @Test func aStrapWhoseBondIsLostIsNotAlsoToldToBeWorn() {
        #expect(
            names {
                $0.straps[0].silentTime = .seconds(300)
                $0.straps[0].trouble = .bondRefused
            } == [.bondLost])
        #expect(
            names {
                $0.straps[0].silentTime = .seconds(300)
                $0.straps[0].trouble = .unreachable(for: .seconds(300))
            } == [.strapUnreachable])
    }

    /// The reason comes from the part that knows it; the end-to-end rule speaks only where none does.
    @Test func aDeliveryThatSaysWhyItStandsIsNotAlsoCalledStalled() {
        #expect(
            names {
                $0.deliveries[0].fault = "answers 503"
                $0.deliveries[0].pending = 900
                $0.deliveries[0].stalledTime = .seconds(900)
                $0.deliveries[0].growth = 900
            } == [.exchangeUnreachable])
    }

    /// With `uplink.interval_seconds: 1800` a delivery was called stalled for two thirds of the time.
    @Test func aDeliveryIsJudgedByItsInterval() {
        func names(stalledFor time: Duration, every interval: Duration) -> [HealthName] {
            self.names {
                $0.deliveries[0].pending = 700
                $0.deliveries[0].growth = 400
                $0.deliveries[0].stalledTime = time
                $0.deliveries[0].interval = interval
            }
        }
        #expect(names(stalledFor: .seconds(601), every: .seconds(30)) == [.deliveryStalled])
        #expect(names(stalledFor: .seconds(3_600), every: .seconds(1_800)) == [])
        #expect(names(stalledFor: .seconds(3_601), every: .seconds(1_800)) == [.deliveryStalled])
        #expect(names(stalledFor: .seconds(600), every: .seconds(1_200)) == [.fallingBehind])
    }

    @Test func whatACauseExplainsIsNotJudgedWhileItLasts() {
        func isJudged(
            _ name: HealthName, _ subject: String = "1",
            _ change: (inout HealthSnapshot) -> Void
        ) -> Bool {
            let snapshot = Self.snapshot(change)
            let unjudged = Unjudged(snapshot, beside: HealthRules.conditions(of: snapshot))
            return !unjudged.contains(.init(name: name, subject: subject))
        }
        #expect(isJudged(.strapSilent) { _ in })
        // What is known of the radio is known only as far as it works.
        for name in [HealthName.noAdapter, .radioOff, .bondLost, .strapSilent, .strapNotStored] {
            #expect(!isJudged(name) { $0.radio = .noDaemon })
        }
        for name in [HealthName.busAbsent, .bluetoothdAbsent, .storeUnwritable, .deliveryStalled] {
            #expect(isJudged(name) { $0.radio = .noDaemon })
        }
        #expect(isJudged(.bluetoothdAbsent) { $0.radio = .poweredOff })
        for trouble in [HealthSnapshot.Strap.Trouble.bondRefused, .noPlace] {
            let change = { (snapshot: inout HealthSnapshot) in
                snapshot.adapters[0].refusesLinks = true
                snapshot.straps[0].trouble = trouble
            }
            #expect(!isJudged(.strapSilent, "1", change) && isJudged(.strapSilent, "2", change))
        }
        #expect(
            !isJudged(.strapNotStored) {
                $0.store.fill = .init(percent: 100, isFull: true, refusesNew: true)
            })
        let unreachable = { (snapshot: inout HealthSnapshot) in
            snapshot.deliveries[0].place = "https://dead.example"
            snapshot.deliveries[0].fault = "answers 503"
        }
        #expect(!isJudged(.deliveryStalled, "https://dead.example stalled", unreachable))
        #expect(
            isJudged(.deliveryStalled, "https://dead.example stalled") {
                unreachable(&$0)
                $0.deliveries.append(HealthSnapshot.Delivery(id: 2, name: "e2"))
                $0.deliveries[1].place = $0.deliveries[0].place
            }, "another delivery to the place is judged")
        #expect(!isJudged(.fallingBehind, "e1", unreachable))
        #expect(isJudged(.fallingBehind, "e2", unreachable))
        #expect(!isJudged(.enrollAgain, "e1") { $0.store.readFault = "disk I/O error" })
        #expect(isJudged(.storeUnreadable, "") { $0.store.readFault = "disk I/O error" })
    }

    /// 40 patients at one exchange that did not answer were 40 items.
    @Test func whatOneCauseStopsIsOneItemWithTheNumber() throws {
        func conditions(_ change: (inout HealthSnapshot.Delivery, Int) -> Void) -> [HealthCondition]
        {
            HealthRules.conditions(
                of: Self.snapshot { snapshot in
                    snapshot.deliveries = (1...40).map { number in
                        var one = HealthSnapshot.Delivery(id: Int64(number), name: "e\(number)")
                        one.place = number < 40 ? "https://dead.example" : "https://other.example"
                        change(&one, number)
                        return one
                    }
                })
        }
        let unreachable = conditions { one, _ in
            one.fault = "the connection is refused"
            one.pending = 900
            one.stalledTime = .seconds(900)
        }
        #expect(unreachable.map(\.name) == [.exchangeUnreachable, .exchangeUnreachable])
        #expect(unreachable.map(\.deliveries.count) == [39, 1])
        #expect(
            unreachable[0].message
                == "39 deliveries to https://dead.example: the connection is refused; samples are kept"
        )
        #expect(unreachable[1].message.hasPrefix("e40: "))
        let stalled = conditions { one, _ in
            one.pending = 10
            one.stalledTime = .seconds(900)
        }
        #expect(stalled.map(\.name) == [.deliveryStalled, .deliveryStalled])
        #expect(stalled[0].message.contains("390 samples wait"), "\(stalled[0].message)")
        let held = conditions { one, number in
            one.hold = Self.hold("no-consent", cause: .consent)
        }
        #expect(held.count == 40, "each patient consents alone")
        let moved = conditions { one, _ in one.hold = Self.hold("moved", cause: .place) }
        #expect(moved.count == 2)
    }

    /// While one more of them failed, the item began anew, and a message said that it was over.
    @Test func anItemOfAPlaceStaysTheSameWhileMoreOfItFails() {
        func subject(_ failing: Int) -> String? {
            HealthRules.conditions(
                of: Self.snapshot { snapshot in
                    snapshot.deliveries = (1...3).map { number in
                        var one = HealthSnapshot.Delivery(id: Int64(number), name: "e\(number)")
                        one.place = "https://dead.example"
                        if number <= failing { one.fault = "answers 503" }
                        return one
                    }
                }
            ).first?.subject
        }
        #expect(subject(1) == subject(3) && subject(1) != nil)
    }

    @Test func anotherDeliverysTroubleIsNoExcuse() {
        #expect(
            names {
                $0.deliveries.append(.init(id: 2, name: "e2"))
                $0.deliveries[0].fault = "answers 503"
                $0.deliveries[1].pending = 900
                $0.deliveries[1].stalledTime = .seconds(900)
            } == [.exchangeUnreachable, .deliveryStalled])
    }

    @Test func anAbsurdAgeDoesNotTrap() {
        #expect(!names { $0.straps[0].silentTime = .seconds(Int64.max) }.isEmpty)
        #expect(
            age(.seconds(-5)) == "0 s" && age(.seconds(130)) == "2 min"
                && age(.seconds(90_000)) == "25 h")
    }
}
