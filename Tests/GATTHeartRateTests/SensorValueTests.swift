import GATTHeartRate
import Testing

@Suite("Values beside the frames")
struct SensorValueTests {
    @Test("Body sensor locations are those of HRS v1.0 §3.2")
    func locations() throws {
        let names = ["other", "chest", "wrist", "finger", "hand", "earLobe", "foot"]
        for (octet, name) in names.enumerated() {
            #expect(try BodySensorLocation(value: [UInt8(octet)]).name == name)
        }
        #expect(BodySensorLocation.allCases.count == names.count)
        for octet in UInt8(7)...255 {
            #expect(throws: ValueFault.reserved(octet)) { try BodySensorLocation(value: [octet]) }
        }
    }

    @Test("A battery level is 0 to 100 percent")
    func battery() throws {
        for octet in UInt8(0)...100 {
            #expect(try BatteryLevel(value: [octet]).percent == octet)
        }
        for octet in UInt8(101)...255 {
            #expect(throws: ValueFault.reserved(octet)) { try BatteryLevel(value: [octet]) }
        }
    }

    @Test("A value of any other length than one octet is a fault", arguments: [0, 2, 3, 600])
    func lengths(_ length: Int) {
        let value = [UInt8](repeating: 1, count: length)
        #expect(throws: ValueFault.length(length)) { try BodySensorLocation(value: value) }
        #expect(throws: ValueFault.length(length)) { try BatteryLevel(value: value) }
    }

    @Test("The control point is asked for a reset by one octet of value 1")
    func controlPoint() {
        #expect(HeartRateControlPoint.resetEnergyExpended == [1])
    }

    @Test("GATT names are the 16-bit numbers in the Bluetooth base UUID, in lower case")
    func names() {
        func base(_ number: String) -> String { "0000\(number)-0000-1000-8000-00805f9b34fb" }
        #expect(HeartRateService.service == base("180d"))
        #expect(HeartRateService.measurement == base("2a37"))
        #expect(HeartRateService.bodySensorLocation == base("2a38"))
        #expect(HeartRateService.controlPoint == base("2a39"))
        #expect(BatteryService.service == base("180f"))
        #expect(BatteryService.level == base("2a19"))
        #expect(DeviceInformationService.service == base("180a"))
        #expect(DeviceInformationService.modelNumber == base("2a24"))
        #expect(DeviceInformationService.serialNumber == base("2a25"))
        #expect(DeviceInformationService.firmwareRevision == base("2a26"))
        #expect(DeviceInformationService.hardwareRevision == base("2a27"))
        #expect(DeviceInformationService.softwareRevision == base("2a28"))
        #expect(DeviceInformationService.manufacturerName == base("2a29"))
    }
}

@Suite("Plausibility")
struct PlausibilityTests {
    private func judge(_ frame: String) throws -> Plausibility {
        Plausibility.judge(try HeartRateMeasurement(frame: octets(frame)))
    }

    @Test("Rates from 30 to 240 are believed, others flagged, and zero has a flag of its own")
    func rates() throws {
        #expect(try judge("00 1e") == [])
        #expect(try judge("00 f0") == [])
        #expect(try judge("00 1d") == .outOfRange)
        #expect(try judge("00 01") == .outOfRange)
        #expect(try judge("00 f1") == .outOfRange)
        #expect(try judge("01 ffff") == .outOfRange)
        #expect(try judge("00 00") == .zeroRate)
        #expect(try judge("01 0000") == .zeroRate)
    }

    @Test("Lost contact is flagged only when the sensor can tell")
    func contact() throws {
        #expect(try judge("04 48") == .contactLost)
        #expect(try judge("04 00") == [.contactLost, .zeroRate])
        #expect(try judge("06 48") == [])
        #expect(try judge("00 48") == [])
        #expect(try judge("02 48") == [])
    }

    @Test("Stored numbers and names never change")
    func stable() {
        #expect(Plausibility.contactLost.rawValue == 1)
        #expect(Plausibility.zeroRate.rawValue == 2)
        #expect(Plausibility.outOfRange.rawValue == 4)
        #expect(Plausibility.frozenRR.rawValue == 8)
        #expect(Plausibility.impossibleJump.rawValue == 16)
        #expect(Plausibility.estimatedTime.rawValue == 32)
        #expect(Plausibility.uncertainTime.rawValue == 64)
        #expect(Plausibility.possibleCopy.rawValue == 128)
        let names = [
            "contactLost", "zeroRate", "outOfRange", "frozenRR", "impossibleJump", "estimatedTime",
            "uncertainTime", "possibleCopy",
        ]
        #expect(Plausibility.all.names == names)
        for (bit, name) in names.enumerated() {
            #expect(Plausibility(name: name) == Plausibility(rawValue: 1 << UInt16(bit)))
        }
        #expect(Plausibility(name: "frozenrr") == nil)
    }
}
