/// The GATT names of the Heart Rate Service (HRS v1.0) as BlueZ spells them: 128-bit, lower case.
public enum HeartRateService {
    /// Heart Rate Service, 0x180D. What a strap advertises.
    public static let service = "0000180d-0000-1000-8000-00805f9b34fb"
    /// Heart Rate Measurement, 0x2A37: notify only; each notification is one frame (HRS v1.0 §3.1).
    public static let measurement = "00002a37-0000-1000-8000-00805f9b34fb"
    /// Body Sensor Location, 0x2A38: read; optional (HRS v1.0 §3.2).
    public static let bodySensorLocation = "00002a38-0000-1000-8000-00805f9b34fb"
    /// Heart Rate Control Point, 0x2A39: write; present when energy is supported (HRS v1.0 §3.3).
    public static let controlPoint = "00002a39-0000-1000-8000-00805f9b34fb"
}

/// The GATT names of the Battery Service (BAS v1.0).
public enum BatteryService {
    /// Battery Service, 0x180F.
    public static let service = "0000180f-0000-1000-8000-00805f9b34fb"
    /// Battery Level, 0x2A19: read, often notify as well. See ``BatteryLevel``.
    public static let level = "00002a19-0000-1000-8000-00805f9b34fb"
}

/// The GATT names of the Device Information Service (DIS v1.1). All values are UTF-8 text.
public enum DeviceInformationService {
    /// Device Information Service, 0x180A.
    public static let service = "0000180a-0000-1000-8000-00805f9b34fb"
    /// Manufacturer Name String, 0x2A29.
    public static let manufacturerName = "00002a29-0000-1000-8000-00805f9b34fb"
    /// Model Number String, 0x2A24.
    public static let modelNumber = "00002a24-0000-1000-8000-00805f9b34fb"
    /// Serial Number String, 0x2A25.
    public static let serialNumber = "00002a25-0000-1000-8000-00805f9b34fb"
    /// Firmware Revision String, 0x2A26.
    public static let firmwareRevision = "00002a26-0000-1000-8000-00805f9b34fb"
    /// Hardware Revision String, 0x2A27.
    public static let hardwareRevision = "00002a27-0000-1000-8000-00805f9b34fb"
    /// Software Revision String, 0x2A28.
    public static let softwareRevision = "00002a28-0000-1000-8000-00805f9b34fb"
}
