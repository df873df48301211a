import OfflineQueue

/// A practitioner's enrollment serves many patients, each with studies and consents of their own.
extension ExchangeDestination {
    /// What the exchange lets this enrollment deliver for one patient; nil inside when no study of
    /// theirs collects heart rate.
    ///
    /// - Parameter patient: as ``Standing/isPatientID(_:)`` has it.
    public func standing(of patient: String) async -> Result<Standing?, ExchangeReader.Fault> {
        // Once as it is, once with a renewed token.
        for _ in 0..<2 {
            let token: AccessToken
            do {
                token = try await tokens.token()
            } catch {
                return .failure(.unauthorized)
            }
            do {
                let standing = try await reader.standing(
                    patient: patient, clientID: await tokens.clientID, token: token.secret)
                await tokens.accepted(token)
                return .success(standing)
            } catch .unauthorized {
                await tokens.refused(token)
            } catch {
                return .failure(error)
            }
        }
        return .failure(.unauthorized)
    }

    /// Takes the device and the code that the enrollment does not have yet. What it has stays: it
    /// stands for every patient's samples.
    public func adopt(_ standing: Standing, device: String) async {
        var changed = terms
        if changed.device == nil { changed.device = device }
        if changed.code == nil {
            changed.codeSystem = standing.code.system
            changed.code = standing.code.code
        }
        guard changed != terms else { return }
        update(changed)
        await termsChanged(changed)
    }

    /// Whether the exchange lets this patient's samples in, as far as it tells. After a lost access
    /// only a sample shows whether the consent is there too.
    public func isMended(_ reason: HoldReason, of patient: String) async -> Bool {
        guard case .success(let standing?) = await standing(of: patient) else { return false }
        return standing.isConsented || reason != .noConsent
    }
}
